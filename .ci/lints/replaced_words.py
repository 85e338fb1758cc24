"""Names, phrases and claims that were replaced or found wrong do not come back."""

from texts import flowing, line_of, texts, words

# Identifiers that name a mood or an impression, each with its replacement.
NAMES = {
    "ALIKE": "a similarity, by its role",
    "Fleet": "PlanDevices",
    "HOPED": "a constant by its role and unit",
    "Lender": "BorrowedBytes",
    "Lending": "BorrowScope",
    "Lent": "BorrowedInputs",
    "PATIENCE": "a timeout, by what it limits",
    "Workshop": "CompilerThreads",
    "beside_devices": "sparing_threads_for_devices",
    "in_the_end": "steady_state_median",
    "mod looks": "mod similarity",
    "patience": "watchdog_timeout",
    "slow_down": "slowdown, where it is a ratio of at least 1",
    "struct Room": "SynchronousDevice",
    "take_stock": "record_round",
    "waits_by_itself": "stream_ordered",
}

# Phrases that point instead of naming, in lower case, each with an example of what to write.
PHRASES = {
    "are not those of": "differ from, or do not describe",
    "as it was told to": "(injected fault)",
    "can pay for it": "save more time than it takes",
    "decides with every product": "chooses the device again for each product",
    "halfway strange": "similarity 0.5",
    "if that is idle": "if cpu is idle",
    "it tells as well": "name the thing that tells",
    "lie apart": "are stored separately",
    "named but too slow": "say what the device gets: emu:0 is too slow to help and gets the minimum share",
    "nobody has written": "unwritten",
    "nobody is woken": "no thread is woken",
    "none where there is no other": "say of what: no second fastest kernel",
    "strange to each other": "similarity 0.5",
    "taken to be there": "assumed to be installed",
    "the one of before": "the previous",
    "the shorter of copy and compute": "copying or computing, whichever is shorter",
    "those who are in": "current accesses",
    "to compare them took": "comparing the sums took",
    "use no others": "use no other rows of X",
    "what runs measured": "measured times",
}

# Refuted claims in lower case, each with what is true.
STAGED = "`Product::apply_into` stages X and Y, `Product::bind` may register them, once for all products"
REFUTED = {
    "fail each for itself": "a kernel fault in cuda:0 also ended cuda:0#2 on the same card (benches/results/cuda-h200.md)",
    "registered where they lie, once": STAGED,
    "x and y are registered once.": STAGED,
    "as the h200's": "say whether a number was measured, is from a data sheet or is assumed",
}


def rule_names_and_phrases():
    """Names and phrases that were replaced by the field's words do not come back."""
    found, names, phrases = [], words(NAMES), words(PHRASES)
    for path, text in texts():
        found += [f"{path}:{line_of(text, at.start())}: '{at[0]}' (write: {NAMES[at[0]]})" for at in names.finditer(text)]
        found += [f"{path}: '{phrase}' (write: {PHRASES[phrase]})" for phrase in sorted(set(phrases.findall(flowing(text))))]
    return found


def rule_refuted_claims():
    """Claims that were found wrong do not come back."""
    flat = [(path, flowing(text)) for path, text in texts()]
    return [f"{path}: '{claim}' is wrong: {truth}" for path, text in flat for claim, truth in REFUTED.items() if claim in text]
