"""The report in a browser: light and dark, wide and narrow, and printed.

``SCREENSHOTS=folder`` stores the screenshots.
"""

import io
import os
from pathlib import Path

import numpy as np
import pytest
from folders import write_run
from PIL import Image

from pg_mpi.report.__main__ import main

pytestmark = pytest.mark.browser

FIGURES = ("learning", "speed", "phases0", "waits0")
BOXES = """
Object.fromEntries([...document.querySelectorAll("figure")].map(figure => {
  const shown = [...figure.querySelectorAll("svg")].filter(svg => svg.getClientRects().length);
  return [figure.id, shown.map(svg => { const box = svg.getBoundingClientRect();
    return [box.left, box.top + scrollY, box.width, box.height]; })];
}))
"""
SMALLEST_TEXT = """
Math.min(...[...document.querySelectorAll("svg text")].filter(text => text.getClientRects().length)
  .map(text => parseFloat(getComputedStyle(text).fontSize) * Math.hypot(text.getScreenCTM().a, text.getScreenCTM().b)))
"""
STYLE = "(words => getComputedStyle(document.querySelector(words)))"
OUTSIDE = """
[...document.querySelectorAll("svg text")].filter(text => {
  const box = text.getBoundingClientRect(), svg = text.ownerSVGElement.getBoundingClientRect();
  return box.width && (box.left < svg.left - 2 || box.right > svg.right + 2 || box.top < svg.top - 2);
}).map(text => text.textContent)
"""


@pytest.fixture(scope="module")
def pages(trained):
    """Paths of the pages: of one run, and of two with names that a page must escape."""
    other = write_run(trained / '<i onclick="alert(1)">&é $x$', updates=400, ranks=100, settings={"gamma": "<script>"})
    main([str(trained / "run")])
    main([str(trained / "run"), str(other), "--out", str(trained / "two.html")])
    return {"one": trained / "run" / "report.html", "two": trained / "two.html"}


def pixels(page, name):
    """Return a screenshot as an array, uint8 (height, width, 3). Stores it in the folder ``SCREENSHOTS``."""
    if os.environ.get("SCREENSHOTS"):
        (Path(os.environ["SCREENSHOTS"]) / f"{name}.png").write_bytes(page.png)
    return np.asarray(Image.open(io.BytesIO(page.png)).convert("RGB"))


def ink_and_colour(screenshot, box):
    """Return the fractions of a figure's pixels that differ from the background, and that are colourful."""
    left, top, width, height = map(round, box)
    part = screenshot[top : top + height, left : left + width].astype(int)
    assert part.shape[:2] == (height, width), "the figure is not on the page"
    background = np.median(part.reshape(-1, 3), axis=0) if part.std() < 40 else part[2, 2]
    colourful = (part.max(axis=2) - part.min(axis=2)) > 60
    return (np.abs(part - background).max(axis=2) > 40).mean(), colourful.mean()


@pytest.mark.parametrize("which", ["one", "two"])
@pytest.mark.parametrize("width", [1280, 390])
def test_page_in_light_and_dark(chrome, pages, which, width):
    backgrounds = {}
    for scheme in ("light", "dark"):
        page = chrome.open(pages[which], width, scheme)
        assert page.problems == [] and all(url.startswith(("file:", "data:")) for url in page.requests), page
        assert len([url for url in page.requests if url.startswith("file:")]) == 1, "the page loads another file"
        assert chrome.run("document.documentElement.scrollWidth") == width, "the page is wider than the screen"
        screenshot = pixels(page, f"{which}-{width}-{scheme}")
        assert screenshot.shape[1] == width
        backgrounds[scheme] = screenshot[5, 5].mean()
        boxes = chrome.run(BOXES)
        for figure in FIGURES:
            (box,) = boxes[figure]  # one version of it is visible
            marks, colours = ink_and_colour(screenshot, box)
            assert marks > 0.01 and colours > 0.001, f"{figure} is empty, {which} {width} {scheme}"
        assert chrome.run(SMALLEST_TEXT) >= 8, "text too small to read"
        assert chrome.run(OUTSIDE) == []
    assert backgrounds["light"] > 235 and backgrounds["dark"] < 40


def test_text_contrast_is_at_least_4_5(chrome, pages):
    """WCAG 2 requires a contrast of 4.5 to 1 between text and background, also in figures."""
    for scheme in ("light", "dark"):
        chrome.open(pages["one"], 1280, scheme)
        card = chrome.run(f"{STYLE}('figure').backgroundColor")
        for selector, kind in (("h2", "color"), (".what", "color"), ("td", "color"), ("svg text", "fill")):
            text = chrome.run(f"{STYLE}('{selector}').{kind}")
            assert contrast(text, card) >= 4.5, (scheme, selector, text, card)


def contrast(one, other):
    """Return the contrast ratio of two CSS colours, as in WCAG 2."""

    def luminance(colour):
        channels = np.array([int(part) for part in colour.split("(")[1].rstrip(")").split(",")[:3]]) / 255
        linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    high, low = sorted([luminance(one), luminance(other)], reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_video_plays(chrome, pages):
    chrome.open(pages["one"], 1280, "light")
    assert (
        chrome.run("document.querySelector('video').play().then(() => document.querySelector('video').videoWidth)")
        == 320
    )
    assert chrome.run("document.querySelector('video').duration") > 1


def test_content_of_runs_is_not_executed(chrome, pages):
    page = chrome.open(pages["two"], 1280, "light")
    assert page.problems == []
    assert chrome.run("document.querySelectorAll('script, [onclick], i:not([class])').length") == 0
    assert '<i onclick="alert(1)">&é $x$' in chrome.run("document.body.innerText")
    assert "<script>" in chrome.run("document.body.innerText")


def test_printed_page_is_light(chrome, pages):
    chrome.open(pages["one"], 1280, "dark")
    chrome.prefer("dark", media="print")
    try:
        colour = chrome.run("getComputedStyle(document.querySelector('figure')).backgroundColor")
        assert colour == "rgb(255, 255, 255)"
        assert chrome.run("getComputedStyle(document.querySelector('svg text')).fill") == "rgb(91, 101, 112)"
        assert chrome.call("Page.printToPDF", preferCSSPageSize=True)["data"]
    finally:
        chrome.prefer("light")
