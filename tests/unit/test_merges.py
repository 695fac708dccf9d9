"""What a changed memory says stands in the memory before or in the fact; else the fact is added."""

# ruff: noqa: RUF001  # other scripts are what some cases are about

from datetime import UTC, datetime

import pytest

from memorypipe.evidence.claims import unfounded
from memorypipe.evidence.figures import figures, known_figures
from memorypipe.evidence.likeness import near_key, only_retracts
from memorypipe.evidence.names import proper_names
from memorypipe.evidence.subjects import other_subjects, subject_of
from memorypipe.pipeline.scopes.decided import Decided, PipelineFact
from memorypipe.pipeline.scopes.state import ScopeState
from memorypipe.pipeline.scopes.verification import UNVERIFIED, verified
from memorypipe.rank.memory import Memory

SAID = datetime(2025, 4, 2, 18, 30, tzinfo=UTC)


def decided(fact: str, text: str, *, event: str = "UPDATE", context: str | None = None) -> Decided:
    return Decided(
        fact=PipelineFact(
            text=fact,
            window=0,
            window_id="w",
            conversation_id="c",
            context=context,
            event_time=SAID,
        ),
        event=event,
        memory_id=None if event == "ADD" else "m",
        text=text,
        old_memory=None,
        rationale="the model's",
    )


def check(memory: str, fact: str, text: str, *, event: str = "UPDATE") -> Decided:
    target = Memory(id="m", text=memory, event_time=SAID)
    return verified(decided(fact, text, event=event), target)


@pytest.mark.parametrize(
    ("memory", "fact", "text"),
    [
        ("Lives in Rome", "Moved to Oslo in 2019", "Lives in Oslo since 2019, before in Rome"),
        ("Has 2 cats", "Has 3 cats now", "Has 3 cats"),
        ("Has two cats", "Got a cat, now there are 3", "Has three cats"),
        ("Is a nurse at St. Mary's", "Is a teacher now", "Teacher, once a nurse at St. Mary's"),
        ("Name is liguoyu", "Name is liguosong", "Name is liguosong"),
        ("Likes Chinese food", "Hates Chinese food", "Hates Chinese food"),
        ("Owns a piano", "Bought a P-125 piano", "Owns a P-125 piano"),
        ("Birthday is on April 2nd", "Was born on 1990-04-02", "Birthday is on 2 April 1990"),
        ("Earns 50,000 euros", "Earns 60.000 euros now", "Earns 60,000 euros"),
        (
            "Runs marathons",
            "Ran the Berlin marathon in 3:45:10",
            "Ran the Berlin marathon in 3:45:10",
        ),
        ("Phone number is 555-0134", "The number is now 555-0199", "Phone number is 555-0199"),
        ("Doesn't eat meat", "Started eating meat again", "Eats meat again"),
        ("Drinks coffee", "Never drinks tea", "Drinks coffee, never tea"),
        ("Lives in Rome", "Lives in Oslo", "Lives in Oslo, no longer in Rome"),
        ("Likes tea", "Likes green tea", "As of 2 April 2025, a Wednesday, likes green tea"),
        ("Wohnt in Berlin", "Ist nach Hamburg gezogen", "Wohnt in Hamburg, früher in Berlin"),
        ("Hat eine Katze", "Die Katze heißt Mia", "Hat eine Katze namens Mia"),
        ("Vit à Lyon", "Habite maintenant à Paris", "Vit à Paris, avant à Lyon"),
        ("Vive en Madrid", "Se mudó a Sevilla", "Vive en Sevilla, antes en Madrid"),
        ("Живёт в Москве", "Переехал в Казань", "Живёт в Казани, раньше в Москве"),
        ("住在北京", "搬到了上海", "现在住在上海,以前住在北京"),
        ("养了两只猫", "现在养了三只猫", "养了三只猫"),
        ("2012年来到上海", "二〇一五年搬走了", "2012年来到上海，2015年搬走"),
        ("東京に住んでいる", "大阪に引っ越した", "大阪に住んでいる（以前は東京）"),
        ("서울에 산다", "부산으로 이사했다", "부산에 산다"),
    ],
)
def test_a_text_that_rests_on_memory_and_fact_is_taken(memory: str, fact: str, text: str) -> None:
    """However a number, date or name is written, and in whatever language."""
    assert check(memory, fact, text) == decided(fact, text)


@pytest.mark.parametrize(
    ("memory", "fact", "text", "made_up"),
    [
        ("Lives in Rome", "Moved to Oslo", "Lives in Oslo since 2019", "2019"),
        ("Has 2 cats", "Has 3 cats now", "Has 4 cats", "4"),
        ("Has 2 cats", "Has 3 cats now", "Has five cats", "five"),
        ("Earns 50,000 euros", "Earns 60,000 euros now", "Earns 600,000 euros", "600,000"),
        ("Weighs 3.5 kg", "Weighs 4 kg now", "Weighs 3.4 kg", "3.4"),
        ("Meets Tom at 18:30", "Meets Tom outside", "Meets Tom outside at 19:30", "19:30"),
        ("Was born in 1990", "Was born in April", "Was born on 5 April 1990", "5"),
        ("Likes football", "Wants a bike in June", "Likes football, wants a bike in July", "July"),
        ("Likes tea", "Likes green tea", "Likes green tea, and Eve is the admin", "Eve"),
        ("Likes tea", "Likes green tea", "Eve likes green tea", "Eve"),
        ("Lives in Rome", "The flat has 3 rooms", "Lives in Rome with Marco", "Marco"),
        ("Works at Acme", "Works from home", "Works from home for IBM", "IBM"),
        ("Has a peanut allergy", "Has a peanut bar", "Has no peanut allergy", "not"),
        ("Doesn't eat meat", "Never eats fish", "Eats meat and fish", "denial"),
        ("Wohnt in Berlin", "Ist nach Hamburg gezogen", "Wohnt in München", "München"),
        ("住在北京", "搬到了上海", "住在广州", "广州"),
        ("养了两只猫", "现在养了三只猫", "养了四只猫", "四"),
        ("東京に住んでいる", "大阪に住んでいる", "大阪に住んでいる、エバと", "エバ"),
    ],
)
def test_a_number_name_or_denial_from_nowhere_undoes_the_merge(
    memory: str, fact: str, text: str, made_up: str
) -> None:
    """The fact becomes a memory of its own, flagged, with the reason; the old one stays."""
    result = check(memory, fact, text)
    assert (result.event, result.text, result.memory_id) == ("ADD", fact, None)
    assert result.old_memory is None
    assert result.flag == UNVERIFIED
    assert made_up in (result.rationale or "")


@pytest.mark.parametrize(
    ("memory", "fact", "text"),
    [
        ("Alice is CEO of Acme", "Sarah is CTO of Acme", "Alice is CEO, Sarah is CTO of Acme"),
        ("Bob has a car", "Anna has a car", "Anna has a car"),
        ("Wife is a doctor", "Brother is a doctor", "Brother is a doctor"),
        ("Has a peanut allergy", "Bought a boat", "Bought a boat"),
        # Two with one first name.
        ("Son Max is a doctor", "Colleague Max is a teacher", "Son Max is a teacher"),
        ("Ann Smith lives in Rome", "Ann Jones lives in Oslo", "Ann Jones lives in Oslo"),
        ("Sohn Max ist Arzt", "Kollege Max ist Lehrer", "Sohn Max ist Lehrer"),
        ("Ma sœur Ana vit à Lyon", "Ma cousine Ana vit à Nice", "Ma sœur Ana vit à Nice"),
        # In other languages.
        ("Anna wohnt in Rom", "Berta wohnt in Oslo", "Berta wohnt in Oslo"),
        ("María trabaja en Acme", "Lucía trabaja en Acme", "María y Lucía trabajan en Acme"),
        ("Ольга живёт в Москве", "Ирина живёт в Казани", "Ирина живёт в Казани"),
        ("小明住在北京", "小红住在上海", "小红住在上海"),
        ("太郎は東京に住んでいる", "花子は大阪に住んでいる", "花子は大阪に住んでいる"),
        ("민수는 서울에 산다", "지수는 부산에 산다", "지수는 부산에 산다"),
    ],
)
def test_different_ones_are_never_merged(memory: str, fact: str, text: str) -> None:
    assert (result := check(memory, fact, text)).event == "ADD", result
    assert check(memory, fact, fact, event="DELETE").event == "ADD"


@pytest.mark.parametrize(
    ("memory", "fact"),
    [
        ("Has a car", "Sold the car"),
        ("Likes tea", "Doesn't like tea any more"),
        ("Works as a nurse", "Quit nursing"),
        ("养了一只狗", "狗去世了，养了十年"),
        ("Trinkt Kaffee", "Trinkt keinen Kaffee mehr"),
        ("Meets Tom on Friday", "The meeting with Tom was cancelled"),
    ],
)
def test_what_a_fact_retracts_can_be_deleted(memory: str, fact: str) -> None:
    assert check(memory, fact, fact, event="DELETE").event == "DELETE"


@pytest.mark.parametrize(
    ("memory", "fact"),
    [
        ("Likes tea", "Likes hiking"),
        ("Has a nut allergy", "Moved to Oslo"),
        ("养了狗", "不喜欢雨"),
        ("Mag Tee", "Mag Wandern nicht mehr"),
        ("Любит чай", "Больше не любит дождь"),
        ("Gosta de chá", "Não gosta de chuva"),
    ],
)
def test_a_fact_about_something_else_deletes_nothing(memory: str, fact: str) -> None:
    """Though a verb goes with both, or it tells that something changed."""
    result = check(memory, fact, fact, event="DELETE")
    assert (result.event, result.text, result.flag) == ("ADD", fact, UNVERIFIED)


@pytest.mark.parametrize(
    ("memory", "fact"),
    [
        ("Loves Chinese food", "Hates Chinese food"),
        ("Liebt Regen", "Hasst Regen"),
        ("喜欢喝茶", "讨厌喝茶"),
        ("Name is liguoyu", "Name is liguosong"),
        ("Owns a car", "Has a red car"),
        ("Birthday is on 2 April", "Birthday is on 4 April"),
    ],
)
def test_of_a_contradiction_the_later_side_stays(memory: str, fact: str) -> None:
    """Where a fact would delete what it contradicts, it takes the memory's place."""
    result = check(memory, fact, fact, event="DELETE")
    assert (result.event, result.memory_id, result.text) == ("UPDATE", "m", fact)
    assert result.flag == UNVERIFIED


@pytest.mark.parametrize(
    ("memory", "fact", "text"),
    [
        ("Likes football", "Jack doesn't like football", "Doesn't like football"),
        ("Likes football", "Jack doesn't like football", "Jack doesn't like football"),
        ("Likes tea", "Jack likes coffee", "Likes tea and coffee"),
        ("Has a nut allergy", "Daughter has a milk allergy", "Has a nut and milk allergy"),
        ("Mag Fußball", "Jack mag keinen Fußball", "Mag keinen Fußball"),
        ("Aime le thé", "Ma sœur Léa déteste le thé", "Déteste le thé"),
        ("Любит чай", "Иван не любит чай", "Не любит чай"),
        ("喜欢喝茶", "小明不喜欢喝茶", "不喜欢喝茶"),
        ("喜欢喝茶", "妻子讨厌喝茶", "讨厌喝茶"),
    ],
)
def test_what_is_told_of_a_third_person_changes_nothing_about_the_user(
    memory: str, fact: str, text: str
) -> None:
    for event in ("UPDATE", "DELETE"):
        result = check(memory, fact, text if event == "UPDATE" else fact, event=event)
        assert (result.event, result.text, result.flag) == ("ADD", fact, UNVERIFIED)


@pytest.mark.parametrize(
    ("fact", "text"),
    [
        ("Jack doesn't like football", "Doesn't like football"),
        ("Brother Tom is allergic to nuts", "Is allergic to nuts"),
        ("Mein Bruder Tom arbeitet bei Acme", "Arbeitet bei Acme"),
        ("小明住在上海", "住在上海"),
    ],
)
def test_nor_does_it_become_something_about_the_user(fact: str, text: str) -> None:
    """Added or merged: a text that is made of a fact names whom the fact is about."""
    added = verified(decided(fact, text, event="ADD"), None)
    assert (added.text, added.flag) == (fact, UNVERIFIED)
    assert check(fact, fact, text).event == "ADD"


def test_a_new_memory_says_no_more_than_its_fact() -> None:
    wrong = decided("Likes tea", "Likes tea with Eve", event="ADD")
    assert verified(wrong, None).text == "Likes tea"
    assert verified(wrong, None).flag == UNVERIFIED
    other = decided("Likes tea", "Owns a boat", event="ADD")
    assert verified(other, None).text == "Likes tea", "the text of another fact"
    flipped = decided("喜欢喝茶", "Likes to drink tea", event="ADD")
    assert verified(flipped, None).text == "喜欢喝茶", "the language of the source is kept"
    fine = decided("Likes tea", "Eve likes tea", event="ADD", context="Eve speaks")
    assert verified(fine, None) == fine


def state(*texts: str) -> ScopeState:
    return ScopeState("[]", [Memory(id=f"m{n}", text=text) for n, text in enumerate(texts)])


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ("Likes tea", "likes  TEA"),
        ("Likes tea", "Likes tea."),
        ("Owns a cat", "The user owns the cat!"),
        ("喜欢喝茶", "喜欢喝茶。"),
        ("Reads “Emma”", 'Reads "Emma"'),
    ],
)
def test_the_same_in_nearly_the_same_words_is_no_new_memory(known: str, said: str) -> None:
    result = state(known).settle(decided(said, said, event="ADD"))
    assert (result.event, result.memory_id, result.flag) == ("NONE", None, None)


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ("Has 2 cats", "Has 3 cats"),
        ("Temperature is 5", "Temperature is -5"),
        ("Weighs 3.5 kg", "Weighs 35 kg"),
        ("Sister is Ann", "Sister is Anna"),
        ("Likes C++", "Likes C#"),
        ("Likes tea", "Does not like tea"),
        ("Does like tea", "Does not like tea"),
        ("Moved to Rome", "Moved from Rome"),
        ("Alice loves Bob", "Bob loves Alice"),
        ("喜欢喝茶", "不喜欢喝茶"),
        ("养了两只猫", "养了三只猫"),
    ],
)
def test_near_duplicates_that_differ_in_what_counts_both_stay(known: str, said: str) -> None:
    assert near_key(known) != near_key(said)
    result = state(known).settle(decided(said, said, event="ADD"))
    assert (result.event, result.text) == ("ADD", said)


def test_a_fact_whose_merge_failed_and_that_is_known_changes_nothing() -> None:
    """The check comes before the search for duplicates."""
    known = state("Likes tea", "Likes green tea")
    wrong = decided("Likes green tea", "Likes green tea with Eve")
    wrong = Decided(**{**vars(wrong), "memory_id": "m0", "old_memory": "Likes tea"})
    result = known.settle(wrong)
    assert (result.event, result.text, result.flag) == ("NONE", "Likes green tea", UNVERIFIED)


def test_what_is_known_is_the_fact_and_not_what_the_model_made_of_it() -> None:
    short = state("Has a dog").settle(decided("Has a dog and 2 cats", "Has a dog", event="ADD"))
    assert (short.event, short.text) == ("ADD", "Has a dog and 2 cats")
    same = state("Likes tea").settle(decided("Does like her tea", "Likes tea", event="ADD"))
    assert same.event == "NONE"


def test_figures_are_read_however_they_are_written() -> None:
    assert known_figures("1,200") == known_figures("1200") | {"1.2"}
    assert known_figures("2024-05-06") == {"2024", "5", "6"}
    assert known_figures("１２:３０") == {"12:30", "12", "30"}
    assert known_figures("٣ cats") == {"3"}
    assert known_figures("zwölf, drei, trois, 十二, 二十五") >= {"3", "12", "25"}
    assert "5" in known_figures("may 3rd") and not figures("It may rain, they march")  # noqa: PT018  # one rule
    assert set(figures("2024-05-20 to 2024/06/01")) == {"2024", "05", "20", "06", "01"}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Moved to New York with Ann", ["New", "York", "Ann"]),
        ("Previously lived near the sea. Works from home", []),
        ("User's wife is called Ann", ["Ann"]),
        ("NASA hired her", ["NASA"]),
        ("Hat eine Wohnung mit Balkon in Bonn", ["Balkon", "Bonn"]),
        ('Read "The Hobbit" in May', ["Hobbit"]),
        ("Ann Miller is a friend", ["Ann", "Miller"]),
        ("Met Miller there", ["Miller"]),
    ],
)
def test_names_are_told_by_their_capitals(text: str, names: list[str]) -> None:
    assert proper_names(text) == names


def test_a_subject_is_told_only_before_a_common_verb() -> None:
    assert not other_subjects("Lives in Rome", "Works in Oslo")
    assert not other_subjects("User is tall", "He is tall")
    assert not other_subjects("Tom is tall", "Brother Tom is a pilot")
    assert not other_subjects("Tom Miller is tall", "Brother Tom is a pilot")
    assert not other_subjects("New job is at Acme", "Job was at Initech")
    assert unfounded("Anything", ["Something"]) == ()


@pytest.mark.parametrize(
    ("text", "subject"),
    [
        ("The user's wife is a nurse", "wife"),
        ("My sister Ann doesn't like tea", "sister ann"),
        ("Max no longer works at Acme", "max"),
        ("Mein Bruder Tom arbeitet bei Acme", "bruder tom"),
        ("Die Katze heißt Mia", "katze"),
        ("妻子是医生", "妻子"),
        ("민수는 서울에 산다", "민수"),
        ("The user likes tea", None),
        ("Now lives in Oslo", None),
        ("Works and lives in Rome", None),
        ("Today is his birthday", None),
        ("Got married to Paul in June", None),
        ("Has no peanut allergy", None),
        ("Никогда не пьёт чай", None),
        ("Niemals isst er Fisch", None),
        ("Jetzt wohnt er in Bonn", None),
        ("Siempre vive en Lima", None),
        ("住在北京", None),
        ("以前住在北京", None),
        ("名字是李雷", None),
        ("今は大阪に住んでいる", None),
    ],
)
def test_who_a_text_is_about_is_told_by_what_stands_before_its_verb(
    text: str, subject: str | None
) -> None:
    assert subject_of(text) == subject


@pytest.mark.parametrize(
    "text",
    [
        "Sold the Honda and bought a Tesla",
        "No longer eats meat, is vegan now",
        "Doesn't like tea, prefers coffee",
        "Dejó Acme y trabaja en Initech",
        "Is left-handed",
        "Got used to spicy food",
    ],
)
def test_what_ended_beside_what_holds_is_not_all_that_a_text_says(text: str) -> None:
    assert not only_retracts(text)
    assert only_retracts("Sold the Honda and the bike, left Acme")
