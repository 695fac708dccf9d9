"""The orders to the memory system that one sentence is enough for, in many languages."""

import re

__all__ = ["STRONG", "STRONG_ASCII"]

# What can be an order, and in front of it the letters of which one is in every text that it
# matches: most texts have none of them, and looking for those is quick.
_STRONG: tuple[tuple[tuple[str, ...], str], ...] = (
    # Orders to set aside what the model was told.
    (
        ("ignore", "disregard", "forget", "override", "bypass"),
        (
            r"\b(?:ignore|disregard|forget|override|bypass)\s+"
            r"(?:(?:the|my|of|these|those|all|any)\s+){0,2}"
            r"(?:all|any|every|your|previous|prior|above|earlier|preceding|former|original|system)\s+"
            r"(?:(?:of|the|previous|prior|above|earlier|preceding|system|existing)\s+){0,3}"
            r"(?:instructions?|rules?|prompts?|directions|guidelines|directives)\b"
        ),
    ),
    (
        ("instruction", "prompt"),
        r"\b(?:new|updated|real|secret)\s+(?:system\s+)?(?:instructions?|prompt)\s*:",
    ),
    (
        ("you are", "you're", "character"),
        (
            r"\byou are now\s+(?:an?|the|in|my)?\s*\w*\s*"
            r"(?:admin|developer|dan\b|mode|unrestricted)"
            r"|\b(?:stay|remain) in character\b|\byou(?:'re| are) (?:now )?\w*(?:bot|gpt)\b"
        ),
    ),
    # Orders about the memories as a whole, or by their number.
    (
        ("memor", "stored fact", "records", "database"),
        (
            r"\b(?:delete|erase|wipe|remove|clear|drop|purge|destroy|forget|overwrite|reset)\s+"
            r"(?:(?:all|every|each|any|the|of|your|my|his|her|their|these|those|existing|stored|other|"
            r"user'?s?)\s+){0,5}"
            r"(?:memory|memories|stored facts|records|database|long-term memory)\b"
        ),
    ),
    (
        ("delete", "update", "overwrite", "replace", "remove"),
        (
            r"\b(?:delete|update|overwrite|replace|remove)\s+(?:memory|id|entry|record|target)\s*"
            r"(?:#|number|no\.?|id)?\s*\d+"
        ),
    ),
    (
        ("memor", "fact", "json", "entry"),
        (
            r"\b(?:store|save|add|record|insert|write|remember|extract|output|return)\s*"
            r"(?:(?:the|this|these|following|as|a|an|new|exactly|only|to|in|into|your|permanent|true)"
            r"\s+){0,5}(?:memory|memories|facts?|json|entry)\s*:"
        ),
    ),
    (
        ("memor",),
        (
            r"\b(?:to|in|into)\s+(?:your|the)\s+(?:long-term\s+)?memor(?:y|ies)\b.{0,40}"
            r"\b(?:admin|trusted|always|permanent)"
        ),
    ),
    # What only the system itself writes.
    (
        ("<",),
        (
            r"</?\s*(?:transcript|memories|facts|context|system|instructions?)(?:-\w+)?\s*>"
            r"|<\|(?:im_start|im_end|system|user|assistant|endoftext)[^>]*\|?>|<</?SYS>>"
            r"|<\s*(?:turn|message|msg)\b[^>]*\brole\b[^>]*>"
        ),
    ),
    (
        ("[",),
        (
            r"\[/?INST\]"
            r"|^\s*(?:#\d+\s*)?\[(?:system|developer|user|assistant|tool)[^\]\n]{0,40}\][^:\n]{0,24}:"
            r"|[\"'](?:memories|actions)[\"']\s*:\s*\["
        ),
    ),
    (
        ("event", "target_id"),
        r"[\"']event[\"']\s*:\s*[\"'](?:ADD|UPDATE|DELETE|NONE)[\"']|[\"']target_id[\"']\s*:",
    ),
    (
        ("memories", "role"),
        r"^\s*(?:#*\s*)(?:existing|current|stored|known)\s+memories\s*:|^\s*-?\s*role\s*:\s*\w+",
    ),
    (
        (":",),
        (
            r"^\s*#{0,3}\s*(?:system|developer)\s*(?:message|prompt|note|override)?\s*:"
            r"|^\s*(?:system|developer|assistant|ai|bot|operator|supervisor|tool(?: result)?)\b"
            r"[^:\n]{0,20}:(?=\s|$)"
        ),
    ),
    (
        ("transcript", "system prompt", "untrusted data", "memories"),
        r"\b(?:begin|end)\s+of\s+(?:the\s+)?(?:transcript|system prompt|untrusted data|memories)\b",
    ),
    # Spelled letter by letter.
    (
        tuple(f"{one}{gap}{two}" for one, two in ("ig", "fo", "de", "st") for gap in " .·_-"),
        (
            r"\b(?=(?:[^\W\d_][ .·_-])*"
            r"(?:i[ .·_-]g|f[ .·_-]o[ .·_-]r|d[ .·_-]e[ .·_-]l|s[ .·_-]t[ .·_-]o))"
            r"(?:[^\W\d_][ .·_-]){11,}[^\W\d_]\b"
        ),
    ),
    # German, French, Spanish, Portuguese, Italian, Russian.
    (("ignorier",), r"\bignorier\w*\s+(?:\w+\s+){0,3}(?:anweisung|instruktion|regel|vorgabe)\w*"),
    (
        ("lösch", "vergiss", "entfern", "wirf", "streich"),
        (
            r"\b(?:lösch|vergiss|entfern)\w*\s+(?:\w+\s+){0,2}(?:erinnerung|einträge|gedächtnis)\w*"
            r"|\b(?:wirf|lösch|vergiss|streich)\w*\b.{0,30}"
            r"\b(?:über mich|weißt|gespeichert|notiert)\b"
            r"|\b(?:weißt|gespeichert|notiert)\b.{0,30}\b(?:wirf|lösch|vergiss|streich)\w*\b"
        ),
    ),
    (
        ("ignor",),
        (
            r"\bignor(?:e|ez|er)\s+(?:\w+\s+){0,3}(?:instructions|consignes|règles)\b"
            r"|\bignor[ae]n?\s+(?:\w+\s+){0,3}(?:instrucciones|instruções|istruzioni|reglas|regras|"
            r"regole)\b|\bignor[aă]\w*\s+(?:\w+\s+){0,3}instrucțiun\w*"
            r"|\b(?:ignorera|ignorer)\s+(?:\w+\s+){0,3}(?:instruktion|anvisning|regl)\w*"
            r"|\b(?:zignoruj|ignoruj)\w*\s+(?:\w+\s+){0,3}"
            r"(?:poleceni|instrukcj|zasad|pokyn|instrukc|pravid)\w*"
        ),
    ),
    (
        ("oubli", "olvid", "esque", "dimentic", "scord"),
        (
            # Not what somebody forgets often, nor the rules of something.
            r"\b(?:oubli(?:e|ez|er)|olvid(?:a|ad|e|en)|esque(?:ce|ça|çam|cer)|dimentica\w{0,2}|scorda\w{0,2})"
            r"\s+(?:(?:toutes|tod[ao]s|tutte|l[aeo]s?|[ao]s|[cmst]es|[mst]us|vos|tue|suas|tuas|ess?as|estas|queste)\s+){1,3}"
            r"(?:\w+\s+)?(?:instructions|consignes|règles|instrucciones|instruções|istruzioni|"
            r"reglas|regras|regole)\b"
            r"(?!\s+(?:d[aeou]s?|del\w*|para|pour|per)\b(?!\s+(?:sist|syst|tu|ton)))"
        ),
    ),
    (
        ("gelten", "ne s'appliquent", "no se aplican"),
        (
            r"\b(?:anweisungen|instruktionen|vorgaben)\s+gelten\s+(?:ab jetzt |nun )?nicht\b"
            r"(?!\s+(?:mehr )?(?:für|bei)\b)"
            r"|\binstructions\s+ne s'appliquent\s+plus\b(?!\s+(?:à|aux?|en|pour)\b)"
            r"|\binstrucciones\s+(?:ya )?no se aplican\b(?!\s+(?:al?|en|para)\b)"
        ),
    ),
    (
        ("souvenir", "mémoire"),
        r"\b(?:supprim|effac|oubli)\w*\s+(?:\w+\s+){0,3}(?:souvenirs|mémoires?)\b",
    ),
    (
        ("recuerdos", "memoria", "memória", "lembranças", "ricordi", "memorie"),
        (
            r"\b(?:borra|elimina|olvida|apaga|exclu|cancella|dimentica)\w*\s+(?:\w+\s+){0,3}"
            r"(?:recuerdos|memorias?|memórias?|lembranças|ricordi|memorie)\b"
        ),
    ),
    (
        ("todo lo que", "tout ce que", "tudo o que"),
        r"\b\w+\s+(?:todo lo que sab[eé]s|tout ce que tu sais|tudo o que sabes?)\b",
    ),
    (
        ("игнорируй", "забудь"),
        r"\b(?:игнорируй|забудь)\w*\s+(?:\w+\s+){0,3}(?:инструкци|указани|правил)\w*",
    ),
    (
        ("удали", "сотри", "забудь"),
        r"\b(?:удали|сотри|забудь)\w*\s+(?:\w+\s+){0,3}(?:воспоминани|памят|запис)\w*",
    ),
    # Dutch, Scandinavian, Finnish, Polish and Czech, Ukrainian, Hungarian, Turkish, Greek.
    (("negeer",), r"\bnegeer\s+(?:\w+\s+){0,3}(?:aanwijzing|instructie|opdracht|regel)\w*"),
    (("glöm", "glem"), r"\bgl[öe]m\s+(?:\w+\s+){0,3}(?:instruktion|anvisning|regl)\w*"),
    (("unohda", "ohita"), r"\b(?:unohda|ohita)\s+(?:\w+\s+){0,3}(?:ohjee|ohje|sään)\w*"),
    (
        ("zapomnij", "zapomeň"),
        r"\bzapom(?:nij|eň)\w*\s+(?:\w+\s+){0,3}(?:poleceni|instrukcj|zasad|pokyn|pravid)\w*",
    ),
    (
        ("ігноруй", "забудь"),
        r"(?:ігноруй|забудь)\w*\s+(?:\w+\s+){0,3}(?:інструкці|вказівк|правил)\w*",
    ),
    (("figyelmen",), r"\bhagyd figyelmen kívül\b.{0,40}utasítás"),
    (
        ("talimat", "yönerge", "kural"),
        r"(?:talimat|yönerge|kural)\w*\s+(?:\w+\s+){0,2}(?:yok say|görmezden gel|unut)",
    ),
    (
        ("αγνόησε", "ξέχασε"),
        r"(?:αγνόησε|ξέχασε)\w*\s+(?:\w+\s+){0,4}(?:οδηγίες|εντολές|κανόνες)",
    ),
    # Vietnamese, Indonesian, Hebrew, Thai, Persian.
    (
        ("bỏ qua", "quên"),
        r"\b(?:bỏ qua|quên)\s+(?:\w+\s+){0,3}(?:hướng dẫn|chỉ dẫn|lệnh|quy tắc)",
    ),
    (
        ("abaikan", "lupakan"),
        r"\b(?:abaikan|lupakan)\s+(?:\w+\s+){0,3}(?:instruksi|perintah|aturan)\w*",
    ),
    (
        ("התעלם", "תתעלם", "שכח"),
        r"(?:התעלם|תתעלם|שכח|תשכח)\w*\s+(?:\w+\s+){0,3}(?:ההוראות|הוראות|ההנחיות|הנחיות)",
    ),
    (("ลืม", "เพิกเฉย", "ละเลย"), r"(?:ลืม|เพิกเฉย|ละเลย).{0,12}(?:คำสั่ง|คำแนะนำ|กฎ)"),
    (("دستور",), r"(?:دستورات|دستورالعمل).{0,16}(?:نادیده|فراموش)"),
    # Chinese, Japanese, Korean, Arabic, Hindi.
    (
        ("忽略", "无视", "無視", "忘"),
        (
            r"(?<![我他她])(?:忽略|无视|無視|忘记|忘掉)(?:.{0,8})(?:指令|指示|规则|規則|提示词|说明(?!书)|要求)"
            r"|(?:指示|命令|ルール|プロンプト).{0,6}(?:無視|忘れ(?!た|てしま|ました|がち))"
        ),
    ),
    (
        ("除", "清空", "抹去", "消"),
        (
            r"(?:删除|刪除|清除|清空|抹去)(?:.{0,6})(?:记忆|記憶|记录|資料|数据)"
            r"|(?:記憶|メモリ|メモリー|記録).{0,6}(?:削除|消去|消し)"
        ),
    ),
    (
        ("무시", "잊어", "삭제", "지워"),
        r"(?:지시|명령|규칙).{0,6}(?:무시|잊어)|(?:기억|메모리|기록).{0,6}(?:삭제|지워)",
    ),
    (("تجاهل",), r"تجاهل\s+(?:\w+\s+){0,3}(?:التعليمات|الأوامر|تعليمات)"),
    (("احذف", "امسح"), r"(?:احذف|امسح)\s+(?:\w+\s+){0,3}(?:الذكريات|ذكريات|الذاكرة)"),
    (("निर्देश",), r"निर्देशों?\s+(?:को\s+)?(?:अनदेखा|नज़रअंदाज़|अनदेखी)"),
)
STRONG = [
    (each, pattern)
    for letters, expression in _STRONG
    for pattern in [re.compile(expression, re.IGNORECASE | re.MULTILINE)]
    for each in letters
]
"""Letters, and an order that a text may hold where it has them."""

STRONG_ASCII = [(letters, pattern) for letters, pattern in STRONG if letters.isascii()]
"""Those that a text in ASCII may hold."""
