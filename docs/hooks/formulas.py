"""Formulas as MathML, made when the site is built: pages need no script for them."""

import html
import re
from xml.etree import ElementTree

from latex2mathml.converter import convert

NAMESPACE = "http://www.w3.org/1998/Math/MathML"
# What pymdownx.arithmatex leaves of `$…$` and `$$…$$`.
INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', flags=re.DOTALL)
BLOCK = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', flags=re.DOTALL)
# Names whose subscript goes below them in a formula of its own.
WITH_LIMITS = {"lim", "min", "max", "sup", "inf", "argmin", "argmax"}
UNDER = {"msub": "munder", "msup": "mover", "msubsup": "munderover"}
# Spellings that GitHub shows and the converter does not know, and the ones that it does.
SPELLINGS = (
    (re.compile(r"\\(begin|end)\{aligned\}"), r"\\\1{align*}"),
    (re.compile(r"\\(mathbb|mathcal|mathbf) ?([A-Za-z])(?![A-Za-z])"), r"\\\1{\2}"),
    (re.compile(r"\\operatorname\*"), r"\\operatorname"),
    (re.compile(r"\\arg\s*\\(min|max)(?![a-z])"), r"\\operatorname{arg\1}"),
)


def with_mathml(content: str) -> str:
    """A page's HTML with its formulas as MathML; a formula that cannot be converted is a `ValueError`."""
    content = BLOCK.sub(lambda found: mathml(html.unescape(found[1]), "block"), content)
    return INLINE.sub(lambda found: mathml(html.unescape(found[1]), "inline"), content)


def mathml(latex: str, display: str) -> str:
    """One formula; its LaTeX stays as the alternative text."""
    spelled = latex.strip()
    for pattern, replacement in SPELLINGS:
        spelled = pattern.sub(replacement, spelled)
    try:
        root = ElementTree.fromstring(convert(spelled, display=display))
    except Exception as error:
        raise ValueError(f"The formula {latex!r} cannot be converted ({type(error).__name__}: {error}).") from error
    for element in root.iter():
        text = element.text or ""
        if "\\" in text or text == "&":
            raise ValueError(
                f"The formula {latex!r} has a part that cannot be converted: {text!r}; write it otherwise."
            )
        if element.get("mathvariant", "normal") != "normal":  # browsers know no other
            raise ValueError(f"The formula {latex!r} has letters in {element.get('mathvariant')}; take \\mathbf{{…}}.")
        if text == "‖" and "stretchy" not in element.attrib:  # the bars of a norm are as high as each other
            element.set("stretchy", "false")
        first = next(iter(element), None)
        tag = element.tag.rpartition("}")[2]
        if display == "block" and tag in UNDER and first is not None and first.text in WITH_LIMITS:
            element.tag = f"{{{NAMESPACE}}}{UNDER[tag]}"
        if tag == "msup" and len(element) == 2 and element[1].text == "′":  # a prime is raised by itself
            element.tag, element[1].tag = f"{{{NAMESPACE}}}mrow", f"{{{NAMESPACE}}}mo"
            element[1].attrib.update(lspace="0", rspace="0")
    root.set("alttext", " ".join(latex.split()))
    ElementTree.register_namespace("", NAMESPACE)
    return ElementTree.tostring(root, encoding="unicode")
