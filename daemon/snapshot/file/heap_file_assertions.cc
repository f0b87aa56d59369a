// SPDX-License-Identifier: Apache-2.0
// HeapFileWriter: assertions, with the values that they mark.
#include "daemon/snapshot/file/heap_file_writer.h"

namespace memprofd {

void HeapFileWriter::add_assertion(const HeapAssertion& assertion) {
  assertions_.bytes.put_byte(static_cast<std::uint8_t>(assertion.kind));
  assertions_.bytes.put(text(assertion.name));
  assertions_.bytes.put_byte(assertion.is_whole ? 1 : 0);
  assertions_.bytes.put(assertion.not_due);
  assertions_.bytes.put(assertion.unchecked);
  if (assertion.kind == AssertionKind::kRegion) {
    assertions_.bytes.put(assertion.max_bytes);
    assertions_.bytes.put(assertion.begin_age_ns / 1000);
    assertions_.bytes.put(assertion.end_age_ns / 1000);
  }
  if (assertions_.bytes.size() >= kPieceBytes) flush_marks();
}

void HeapFileWriter::add_mark(std::uint32_t assertion, std::uint64_t value,
                              AssertionMark::Until until, std::uint64_t other) {
  if (marks_.bytes.size() == 0) last_mark_ = 0;
  marks_.bytes.put(assertion);
  put_place(marks_, value, last_mark_);
  marks_.bytes.put_byte(static_cast<std::uint8_t>(until));
  if (until == AssertionMark::Until::kOther) {
    marks_.bytes.put_signed(static_cast<std::int64_t>(place_of(other) - place_of(value)));
  }
  if (marks_.bytes.size() >= kPieceBytes) flush_marks();
}

void HeapFileWriter::flush_marks() {
  flush_names();
  flush(assertions_);
  flush(marks_);
}

}  // namespace memprofd
