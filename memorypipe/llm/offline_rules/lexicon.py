"""The word lists of the offline rules: closed classes of English words, each named for its use."""

__all__ = [
    "ADVERBS",
    "CHAT_VERBS",
    "DROPPED_ADVERBS",
    "FREQUENCY",
    "GOAL_VERBS",
    "HABIT_VERBS",
    "ILLNESSES",
    "JOBS",
    "NUMBER_WORDS",
    "OWN_THINGS",
    "PAST_VERBS",
    "PREFERENCE_VERBS",
    "PROGRESSIVE_VERBS",
    "RELATIONS",
    "SAME_FORM_VERBS",
    "alternatives",
    "third_person",
    "words",
]


def words(text: str) -> frozenset[str]:
    """The words of a text, as a set.

    Example:
        >>> sorted(words("b a"))
        ['a', 'b']
    """
    return frozenset(text.split())


ADVERBS = words(
    """
    absolutely actually already also always certainly currently definitely deeply especially
    even eventually finally frequently fully generally genuinely hardly honestly just kinda lately
    literally mainly mostly never normally now occasionally officially often only originally
    particularly personally practically presently primarily probably pretty quite rarely really
    recently regularly seldom simply so sometimes soon specifically still strongly strictly
    successfully then totally truly typically usually very
    """
)
# These say nothing that a memory would miss.
DROPPED_ADVERBS = words("actually also certainly definitely honestly just kinda literally then")
# Beside one of these a verb is surely present, not past.
FREQUENCY = words("always often usually every daily weekly monthly each regularly sometimes never")

PREFERENCE_VERBS = words("adore detest dislike enjoy favor favour hate like loathe love prefer")
HABIT_VERBS = words(
    """
    attend bake belong breed camp climb coach collect come commute cook cycle dance design do draw
    dream drink drive eat exercise fish garden go grow hike hunt identify jog keep knit lead
    listen live
    major make manage meditate mentor own paint plan play practice practise raise rent ride
    run sail sell sew share sing ski skateboard sleep smoke speak specialise specialize spend study
    suffer support surf swim take teach train travel use visit volunteer wake walk watch wear weigh
    work write
    """
)
# Present and past look alike: never conjugated without a word that tells.
SAME_FORM_VERBS = words("read quit put cut hurt beat")
PAST_VERBS = words(
    """
    adopted applied attended ate baked became began booked bought broke built camped celebrated
    changed chose climbed collected competed completed composed cooked created danced decided
    designed developed discovered divorced donated drew drove earned enrolled exchanged
    failed fell finished flew formed founded gave graduated grew hiked hosted hurt injured
    inherited installed interviewed invested joined launched learned learnt left lived lost made
    majored married met missed moved opened ordered organised organized painted participated passed
    performed planned planted played practiced practised presented proposed published purchased
    quit raised ran read received recorded redecorated registered relocated remodeled renovated
    rented rescued resigned restored retired returned rode sang scored separated served signed sold
    spent started stopped studied submitted surfed swam switched taught took toured trained
    transferred traveled travelled tried turned upgraded visited volunteered watched went won
    worked wrote
    """
)
PROGRESSIVE_VERBS = words(
    """
    adopting applying attending building buying caring coaching collecting competing cooking
    creating dating designing developing doing expecting flying getting going graduating growing
    hosting joining launching learning leaving living majoring moving opening organising organizing
    painting performing planning playing practicing practising preparing pursuing quitting raising
    reading recovering relocating remodeling renovating renting retiring running saving seeing
    selling starting studying suffering taking teaching teaming training traveling travelling trying
    turning visiting volunteering watching working writing
    """
)
# What people announce to the one they are chatting with; nothing to remember.
CHAT_VERBS = words(
    """
    ask assure be believe call catch chat check choose come consider continue discuss do express
    figure find focus follow get give go hear help hold improve introduce keep know leave let listen
    look make master meet mention pass pay pick put rely relax remember rest say see seek seriously
    set share show sleep step stay stick talk tell thank think try understand update use wait watch
    """
)
GOAL_VERBS = words(
    """
    adopt apply attend become build buy climb compete expand fly found graduate host join launch
    learn marry move open organise organize own publish pursue quit relocate renovate retire run
    save sell start study switch teach travel visit volunteer work write
    """
)
RELATIONS = words(
    """
    aunt aunts baby boss boyfriend brother brothers cat cats child children colleague colleagues
    cousin cousins coworker coworkers dad daughter daughters dog dogs ex family father fiance
    fiancé fiancee fiancée fish flatmate friend friends girlfriend granddaughter grandfather
    grandma grandmother grandpa grandparents grandson granny guinea hamster horse husband kid kids
    kitten kittens manager mom mother mum neighbor neighbour nephew nephews niece nieces nan
    parents parrot partner pet pets pup puppies puppy pups rabbit roommate roommates siblings
    sister sisters son sons spouse stepdad stepfather stepmom stepmother teacher tortoise turtle
    turtles twins uncle wife
    """
)
# What, after "my", makes a sentence a statement about the speaker.
OWN_THINGS = words(
    """
    address age allergies allergy anniversary apartment bike birthday budget business car company
    degree diet dream email employer flat flight garden goal height hobbies hobby hometown house job
    language major name nationality occupation passion phone position profession religion salary
    studio surgery tongue username wedding weight zodiac
    """
)
ILLNESSES = words(
    """
    acne adhd allergies anemia anxiety arrhythmia arthritis asthma autism bipolar bronchitis cancer
    celiac coeliac depression diabetes dyslexia eczema epilepsy fibromyalgia glaucoma hypertension
    hypothyroidism insomnia lupus migraines narcolepsy ocd osteoporosis pcos psoriasis ptsd
    scoliosis
    tinnitus vertigo
    """
)
JOBS = words(
    """
    accountant actor actress analyst architect artist baker barber bartender biologist builder
    carpenter cashier chef chemist coach consultant cook dancer dentist designer developer
    director doctor driver editor electrician engineer farmer firefighter fireman freelancer
    gardener hairdresser journalist judge lawyer lecturer librarian manager mechanic musician
    nurse paramedic pharmacist photographer physicist pilot plumber policeman producer
    professor programmer psychologist receptionist researcher salesman scientist secretary
    soldier student surgeon teacher technician therapist tutor vet veterinarian waiter waitress
    writer
    """
)
_COUNTED = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen
    fifteen sixteen seventeen eighteen nineteen twenty"""
NUMBER_WORDS = {word: str(number) for number, word in enumerate(_COUNTED.split())} | {
    "thirty": "30",
    "forty": "40",
    "fifty": "50",
    "sixty": "60",
    "hundred": "100",
}

_IRREGULAR_THIRD = {"have": "has", "be": "is", "do": "does", "go": "goes"}


def alternatives(choices: frozenset[str]) -> str:
    """A regular expression that matches any of the words, longest first."""
    return "|".join(sorted(choices, key=lambda word: (-len(word), word)))


def third_person(verb: str) -> str:
    """The third person singular of a base verb.

    Example:
        >>> third_person("study"), third_person("watch"), third_person("play")
        ('studies', 'watches', 'plays')
    """
    if verb in _IRREGULAR_THIRD:
        return _IRREGULAR_THIRD[verb]
    if verb.endswith(("s", "x", "z", "ch", "sh", "o")):
        return verb + "es"
    if verb.endswith("y") and verb[-2:-1] not in "aeiou":
        return verb[:-1] + "ies"
    return verb + "s"
