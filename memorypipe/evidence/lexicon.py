# ruff: noqa: RUF001  # letters of other scripts, on purpose
"""Small words of many languages that the checks of this package go by."""

import re

__all__ = [
    "AVERSION",
    "CHANGE",
    "END",
    "KIN",
    "NEGATION",
    "NO_LONGER",
    "OTHER_VERBS",
    "PERSON_VERBS",
    "STOP_WORDS",
    "SUBJECTS",
    "VERBS",
    "words",
]


def words(text: str) -> frozenset[str]:
    """Cut a list of words at its spaces."""
    return frozenset(text.split())


# Words that say nothing about a subject: none of them makes two texts speak of one thing.
STOP_WORDS = words(
    "a an the this that these those and or but of to in on at by for from with as is are was "
    "were be been being am has have had do does did will would can could should may might "
    "it its he him his she her they them their we us our i me my you your user users s t re ve "
    "ll m d not no there here so than then too very also just about into over up out now "
    "der die das den dem des ein eine einen einem einer und oder ist sind war hat haben ich "
    "er sie es wir mein meine sein seine ihr ihre in im am an auf von vom zu zum zur mit für "
    "le la les un une des du de et ou est sont a ont il elle je nous mon ma mes sa ses dans "
    "el los las unos unas y o es son tiene ha yo mi mis su sus en con por para que se "
    "il lo gli uno di da e ha io mio sua che per "
    "os as um uma do dos das em no na eu meu minha seu sua "
    "и в на с у я он она мы мой моя его её это не"
)

_WORD_NEGATION = (
    "not no never without none neither nor cannot can't won't don't doesn't didn't isn't aren't "
    "wasn't weren't hasn't haven't hadn't wouldn't shouldn't couldn't ain't hates dislikes "
    "nicht kein keine keinen keinem keiner nie niemals ohne "
    "pas jamais aucun aucune sans nunca ningún ninguna tampoco sin "
    "não nem sem non mai senza нет не никогда без"
)
NEGATION = re.compile(
    r"(?<!\w)(?:" + "|".join(map(re.escape, _WORD_NEGATION.split())) + r")(?!\w)"
    r"|不|没|沒|未|無|无|ない|ません|なかった|안 |않|못|없",
    re.IGNORECASE,
)

# Negates what was, not what is: a changed value may be put so.
NO_LONGER = re.compile(
    r"(?<!\w)(?:no longer|not any ?more|not anymore|nicht mehr|kein\w* mehr|ya no|não mais|non più|"
    r"больше не|ne .{1,20} plus)(?!\w)|不再|もう.{0,10}ない|더 이상",
    re.IGNORECASE,
)

# Something was so and is not any more, or is so from now on.
CHANGE = re.compile(
    r"(?<!\w)(?:now|no longer|any ?more|instead|stopped|quit|gave up|given up|used to|former\w*|"
    r"previous\w*|before|again|anew|became|become|switched|changed|moved|left|sold|lost|ended|"
    r"broke up|divorced|retired|cancell?ed|returned|died|dead|gone|ex|got rid|resigned|dropped|"
    r"jetzt|nicht mehr|früher|statt\w*|aufgehört|verkauft|wieder|"
    r"maintenant|désormais|ne .{1,20} plus|arrêté|vendu|ahora|ya no|dejó|vendió|antes|"
    r"agora|não mais|parou|vendeu|adesso|non più|smesso|теперь|больше не|раньше|продал\w*)(?!\w)"
    r"|现在|不再|已经|改|换|搬|卖|辞|以前|之前|今は|もう|やめ|変え|売|이제|더 이상|그만|바꿨|팔았",
    re.IGNORECASE,
)

# Of these the ones that tell that something ended, and nothing of what is so from now on.
END = re.compile(
    r"(?<!\w)(?:no longer|any ?more|stopped|quit|gave up|given up|sold|lost|ended|"
    r"(?<!got )(?<!is )used to|left(?![- ](?:hand|wing))|broke up|divorced|"
    r"retired|cancell?ed|returned|died|dead|gone|got rid|resigned|dropped|"
    r"nicht mehr|kein\w* mehr|aufgehört|verkauft|gekündigt|gestorben|abgesagt|"
    r"ne .{1,20} plus|arrêté|vendu|annulé|ya no|dejó|vendió|canceló|não mais|parou|vendeu|"
    r"non più|smesso|venduto|больше не|продал\w*|бросил\w*)(?!\w)"
    r"|不再|卖|辞|去世|取消|戒|もう|やめ|売|더 이상|그만|팔았|취소",
    re.IGNORECASE,
)

# An opinion, not the denial of one.
AVERSION = re.compile(
    r"(?<!\w)(?:hates?|dislikes?|hasst|déteste|odia|detesta|ненавидит)(?!\w)|讨厌|嫌い|싫어",
    re.IGNORECASE,
)

# May open a sentence as its subject without being anybody's name.
SUBJECTS = words(
    "he she it they we you i who this that these those there here user users everyone nobody "
    "someone one both each all some most many what which name "
    "customer client cliente kunde kundin person speaker author nutzer nutzerin benutzer "
    "benutzerin utilisateur utilisatrice l'utilisateur l'utilisatrice usuario usuaria usuário "
    "usuária utente l'utente gebruiker gebruikster пользователь пользовательница użytkownik "
    "użytkowniczka användare användaren kullanıcı"
)

# What follows a subject. After anything else the first word is no subject, mostly a verb.
VERBS = words(
    "is was are were has had will would can could does did lives lived works worked likes liked "
    "loves loved hates hated owns owned wants wanted plans planned studies studied speaks spoke "
    "plays played drives drove runs ran moved bought sold prefers preferred enjoys enjoyed wrote "
    "teaches taught leads led manages managed married became grew visited started quit"
)

# Likewise in German, Dutch, French, Spanish, Portuguese, Italian, Russian, Polish, Swedish.
OTHER_VERBS = words(
    "wohnt wohnte lebt lebte arbeitet arbeitete mag mochte liebt hasst besitzt spielt studiert "
    "spricht fährt möchte heißt trinkt isst woont leeft werkt houdt heeft eet speelt "
    "habite vit vivait travaille aime déteste adore possède étudie préfère veut mange boit "
    "vive vivía trabaja odia prefiere quiere estudia habla vende compró "
    "mora tem trabalha gosta adora prefere quer estuda fala lavora preferisce vuole studia parla "
    "живёт живет жил жила работает работал работала любит ненавидит имеет хочет играет учится "
    "говорит переехал переехала купил купила пьёт пьет ест был была есть "
    "mieszka pracuje lubi kocha nienawidzi chce gra studiuje bor arbetar gillar älskar "
    "yaşıyor çalışıyor seviyor"
)

# Only persons do so.
PERSON_VERBS = words(
    "likes liked loves loved hates hated dislikes owns owned wants wanted studies studied speaks "
    "spoke prefers preferred enjoys enjoyed wrote writes teaches taught lives lived works worked "
    "married eats ate drinks drank knows knew thinks thought hopes believes collects wears said "
    "喜欢 喜爱 讨厌 爱 住 养 想 工作 结婚 毕业"
) | (OTHER_VERBS - words("vive vit fährt heißt tem heeft был была есть"))

KIN = words(
    "wife husband partner spouse girlfriend boyfriend mother father mom dad mum brother sister son "
    "daughter child kid uncle aunt cousin nephew niece grandmother grandfather grandma grandpa "
    "friend colleague coworker neighbour neighbor boss manager roommate flatmate "
    "frau mann mutter vater bruder schwester sohn tochter freund freundin kollege kollegin nachbar "
    "nachbarin chef femme mari mère père frère sœur fils fille ami amie collègue voisin voisine "
    "esposa esposo marido madre padre hermano hermana hijo hija amigo amiga colega vecino vecina "
    "moglie marito fratello sorella figlio figlia amico amica "
    "жена муж мать отец брат сестра сын дочь друг подруга коллега сосед соседка "
    "妻子 丈夫 母亲 妈妈 父亲 爸爸 哥哥 弟弟 姐姐 妹妹 儿子 女儿 朋友 同事 邻居 老板 "
    "妻 夫 母 父 兄 弟 姉 妹 息子 娘 友人 同僚 아내 남편 어머니 아버지 형 누나 동생 "
    "아들 딸 친구 동료"
)
