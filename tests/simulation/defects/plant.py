"""Plants many defects into one build: a function has a body for each of its defects, and a number in the environment
says which of them runs."""

import re

# The variable with the number of the defect that is planted. Without it, none is.
NUMBER = "PLANTED"

READS_NUMBER = f"""
/// The number of the planted defect.
#[allow(warnings, clippy::all)]
pub fn planted() -> usize {{
    static NUMBER: std::sync::LazyLock<usize> = std::sync::LazyLock::new(|| {{
        std::env::var("{NUMBER}").ok().and_then(|number| number.parse().ok()).unwrap_or_default()
    }});
    *NUMBER
}}
"""

LITERAL = re.compile(
    r"//[^\n]*|/\*.*?\*/"
    r"|b?r(#*)\".*?\"\1|b?\"(?:\\.|[^\"\\])*\""
    r"|b?'(?:\\(?:u\{[^}]*\}|x..|.)|[^'\\\n])'",
    re.DOTALL,
)


def end_of(code, at, pair="{}"):
    """Where the block ends that begins at this brace."""
    depth = 0
    for brace in re.finditer(f"[{pair}]", code[at:]):
        depth += 1 if brace[0] == pair[0] else -1
        if not depth:
            return at + brace.end()
    raise ValueError(f"expected the end of the block at {at}")


def bodies(text):
    """The bodies of the outermost functions. All bodies of one must have the same type, which `impl` doesn't name."""
    # A brace in a comment or in a literal is none.
    code = LITERAL.sub(lambda it: re.sub(r"[^\n]", " ", it[0]), text)
    end = 0
    for head in re.finditer(r"\bfn\s+\w+(<[^(]*>)?\(", code):
        if head.start() < end:
            continue
        returned = end_of(code, head.end() - 1, "()")
        begin = re.compile(r"(\[[^]]*\]|[^{;[])*").match(code, returned).end()
        if code[begin] == ";":
            continue
        end = end_of(code, begin)
        if "impl" not in code[returned:begin]:
            yield begin, end


def plant(tree, defects):
    """Plants all of these defects, and returns the numbers of those that are in no function. A defect is its name, its
    file and two texts, by its number."""
    alone, by_body = set(), {}
    for number, (_, path, old, _) in defects.items():
        text = (tree / path).read_text()
        at = text.index(old)
        body = next((it for it in bodies(text) if it[0] < at and at + len(old) < it[1]), None)
        if body:
            by_body.setdefault((path, body), []).append(number)
        else:
            alone.add(number)
    # From the end of each file, so that what is before stays where it is.
    for (path, (begin, end)), numbers in sorted(by_body.items(), reverse=True):
        text = (tree / path).read_text()
        body = text[begin:end]
        arms = "".join(f"{number} => {body.replace(*defects[number][2:])}\n" for number in numbers)
        number = "crate::planted()" if path.startswith("shared/core/") else "comeback_core::planted()"
        (tree / path).write_text(f"{text[:begin]}{{ match {number} {{ {arms} _ => {body} }} }}{text[end:]}")
    root = tree / "shared/core/src/lib.rs"
    root.write_text(root.read_text() + READS_NUMBER)
    return alone
