"""Whom a text is about: what opens a sentence without being its subject refuses no change."""

import pytest

from memorypipe.evidence.subjects import other_subjects, turns_to_other_person


@pytest.mark.parametrize(
    ("fact", "memory"),
    [
        ("Customer lives in Rome", "Lives in Milan"),
        ("Nutzer wohnt in Berlin", "Wohnt in Hamburg"),
        ("L’utilisateur habite à Paris", "Habite à Lyon"),  # noqa: RUF001  # as typed
        ("Пользователь живёт в Москве", "Живёт в Казани"),
        ("Użytkownik mieszka w Krakowie", "Mieszka w Warszawie"),
        ("Användaren bor i Malmö", "Bor i Lund"),
        ("客户喜欢喝茶", "喜欢喝咖啡"),
    ],
)
def test_who_uses_it_is_the_user_in_any_language(fact: str, memory: str) -> None:
    assert not turns_to_other_person(fact, memory)
    assert not other_subjects(fact, memory)


@pytest.mark.parametrize(
    ("fact", "memory"),
    [
        ("Since May lives in Rome", "Lives in Milan"),
        ("Instead prefers tea", "Prefers coffee"),
        ("Almost never drinks coffee", "Drinks coffee"),
        ("Mittlerweile arbeitet bei Siemens", "Arbeitet bei Bosch"),
        ("Désormais habite à Paris", "Habite à Lyon"),
        ("Atualmente mora em Lisboa", "Mora em Porto"),
        ("Недавно переехал в Москву", "Живёт в Казани"),
        ("Obecnie mieszka w Krakowie", "Mieszka w Warszawie"),
        ("Numera bor i Malmö", "Bor i Lund"),
        ("Tegenwoordig woont in Utrecht", "Woont in Amsterdam"),
        ("如今住在上海", "住在北京"),
        ("特别喜欢喝茶", "喜欢喝咖啡"),
        ("普段は紅茶を飲む", "朝食は紅茶を飲む"),
        ("요즘은 차를 마신다", "아침은 차를 마신다"),
    ],
)
def test_what_tells_when_or_how_much_is_no_subject(fact: str, memory: str) -> None:
    assert not turns_to_other_person(fact, memory)
    assert not other_subjects(fact, memory)


@pytest.mark.parametrize(
    ("fact", "memory"),
    [
        ("Kaffee trinkt er nicht", "Trinkt gerne Tee"),
        ("Fußball mag ich nicht", "Mag Sport"),
        ("Kahve seviyor", "Çay seviyor"),
        ("Ankara'da yaşıyor", "İstanbul'da yaşıyor"),  # noqa: RUF001  # Turkish
    ],
)
def test_what_stands_before_a_verb_need_not_be_its_subject(fact: str, memory: str) -> None:
    assert not turns_to_other_person(fact, memory)
    assert not other_subjects(fact, memory)


@pytest.mark.parametrize(
    ("fact", "memory"),
    [
        ("Jack likes tea", "Likes coffee"),
        ("Max mag Tee", "Mag Kaffee"),
        ("Marie habite à Paris", "Habite à Lyon"),
        ("Анна любит чай", "Любит кофе"),
        ("小红喜欢喝茶", "喜欢喝咖啡"),
    ],
)
def test_who_is_named_before_the_verb_is_still_another_person(fact: str, memory: str) -> None:
    assert turns_to_other_person(fact, memory)
