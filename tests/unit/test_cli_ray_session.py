"""Ray gets a small object store where little memory is free."""

from memorypipe.cli.ray_session import object_store_bytes

_GIB = 1024**3


def test_a_roomy_machine_leaves_the_size_to_ray() -> None:
    assert object_store_bytes(16 * _GIB) is None


def test_a_tight_machine_gives_a_quarter_of_what_is_free() -> None:
    assert object_store_bytes(4 * _GIB) == _GIB


def test_it_never_goes_below_what_ray_needs() -> None:
    assert object_store_bytes(0) == 128 * 1024**2
