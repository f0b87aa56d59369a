# SPDX-License-Identifier: Apache-2.0
"""Appearance of the page: nothing touches, is cut off or broken inside a word, and each number has a label."""

import unittest

from page_harness import PageTest

NARROW, USUAL, WIDE = 390, 1280, 1920


class Look(PageTest):
    arguments = ("--web.enable-control",)
    expected_errors = ("willReadFrequently",)  # advice for pages that read their canvas; only this test does

    def each_width(self, *widths):
        for width in widths or (NARROW, USUAL, WIDE):
            self.browser.resize(width, 900)
            yield width

    def boxes(self, selector):
        """Left, top, right and bottom of each visible element."""
        return self.js(f"""[...document.querySelectorAll({selector!r})].filter((e) => e.offsetParent !== null)
            .map((e) => {{ const b = e.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]; }})""")

    def test_buttons_of_a_program_do_not_touch(self):
        self.open()
        for _ in self.each_width():
            boxes = self.boxes("#overview tr.chosen td:last-child button")
            self.assertEqual(3, len(boxes))
            for (_, top, right, _), (left, next_top, _, _) in zip(boxes, boxes[1:]):
                self.assertTrue(left - right >= 4 or next_top > top, boxes)

    def test_the_cost_of_profiling_says_what_it_is_a_share_of(self):
        self.open()
        for _ in self.each_width():
            self.browser.wait_for("/^(<0.1|[\\d.]+) % CPU$/.test("
                                  "document.querySelector('#overview tr.chosen .budget').innerText)")

    def test_the_list_of_programs_fits(self):
        self.open()
        for _ in self.each_width():
            self.assertTrue(self.js("(() => { const t = document.querySelector('#overview .table'); "
                                    "return t.scrollWidth <= t.clientWidth; })()"))

    def test_the_number_of_rows_says_of_what(self):
        self.open(f"pid={self.server.pid}&tab=sites")
        self.browser.wait_for("/^[\\d,]+ sites$/.test(document.querySelector('.sites-count').innerText)")
        for group, words in (("Module", "modules?"), ("Library", "librar(y|ies)"), ("Callstack", "callstacks")):
            self.press(group, ".sites-controls")
            self.browser.wait_for(f"/^[\\d,]+ {words}$/.test(document.querySelector('.sites-count').innerText)")

    def test_names_of_callers_are_not_broken_inside_a_word(self):
        """Each part of a name between two dots stays on one line."""
        self.open(f"pid={self.server.pid}&tab=callers&x.callers.of=%5EDemo_server%5C.Server%5C.respond%24&m=allocated")
        self.browser.wait_for("document.querySelectorAll('.callers-parts li').length > 3")
        for width in self.each_width():
            lines = self.js("""[...document.querySelectorAll(".callers-parts li button")]
                .flatMap((button) => [...button.childNodes])
                .filter((node) => node.nodeType === Node.TEXT_NODE && node.data !== "")
                .map((node) => { const range = document.createRange();
                    range.selectNodeContents(node); return [node.data, range.getClientRects().length]; })""")
            self.assertTrue(lines)
            self.assertEqual([], [text for text, number in lines if number != 1])
            self.assertTrue(all(right <= width for _, _, right, _ in self.boxes(".callers-parts .value")))

    def test_the_cursor_of_the_strip_is_whole_at_its_end(self):
        """While live, the cursor is at the right edge, and its head, 10 pixels wide, is left of it."""
        self.open()
        for _ in self.each_width():
            self.browser.wait_for("""(() => {
                const canvas = document.querySelector(".strip canvas"), width = canvas.clientWidth;
                const context = canvas.getContext("2d"), ratio = canvas.width / width;
                const isDrawn = (x, y) =>
                    context.getImageData(Math.round(x * ratio), Math.round(y * ratio), 1, 1).data[3] > 200;
                return width === canvas.parentElement.clientWidth && isDrawn(width - 9, 5) && isDrawn(width - 5, 40);
            })()""")

    def test_a_program_without_published_values_has_no_empty_table(self):
        self.open(f"pid={self.server.pid}&tab=values")
        self.browser.wait_for("document.querySelector('#values output').textContent.includes('publishes no values')")
        self.assertEqual([], self.boxes(".values-parts"))
        self.assertEqual([], self.boxes("#values input[aria-label=Names]"))

    def test_tabs_and_search_fit_a_telephone(self):
        self.open()
        for _ in self.each_width(NARROW):
            self.assertEqual(1, len({top for _, top, _, _ in self.boxes("#tabs button")}))
            self.assertEqual([], self.boxes("#search kbd"))
        for _ in self.each_width(USUAL):
            self.assertEqual(1, len(self.boxes("#search kbd")))


if __name__ == "__main__":
    unittest.main()
