// SPDX-License-Identifier: Apache-2.0
#include "daemon/values/batch_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "daemon/discover/target_memory.h"
#include "tests/kit/fake_memory.h"

namespace memprofd {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kBase = 0x10000;
constexpr std::uint64_t integer(std::uint64_t n) { return n << 1 | 1; }

// A value of seven bytes, in one word.
std::uint64_t text_word(const char (&text)[8]) {
  std::uint64_t word = 0;
  std::memcpy(&word, text, sizeof word);
  return word;
}
constexpr unsigned kString = 252;

// Memory of whole pages that the program changes at moments of the test's choice.
class ChangingMemory : public FakeMemory, public PieceReader {
 public:
  ChangingMemory() : FakeMemory(kBase) {}
  absl::Status read(std::uint64_t address, std::span<std::byte> out) const override {
    if (hangs && address / kPage == kBase / kPage + 1) {
      return absl::DeadlineExceededError("its memory does not answer");
    }
    if (gone == address / kPage) return absl::OutOfRangeError("not mapped");
    const absl::Status status = FakeMemory::read(address, out);
    bytes += out.size();
    const int times = ++times_[address / kPage];
    if (after_read) after_read((address - kBase) / kPage, times);
    return status;
  }
  absl::StatusOr<std::size_t> read_pieces(std::span<const MemoryPiece> pieces) const override {
    ++steps;
    std::size_t done = 0;
    while (done < pieces.size() && read(pieces[done].address, pieces[done].out).ok()) ++done;
    return done;
  }
  std::function<void(std::uint64_t page, int times)> after_read;
  mutable int steps = 0;
  mutable std::size_t bytes = 0;
  bool hangs = false;      // the second page
  std::uint64_t gone = 0;  // a page that is not mapped any more

 private:
  mutable std::map<std::uint64_t, int> times_;
};

class BatchReaderTest : public ::testing::Test {
 protected:
  // The next page begins here.
  void next_page() { memory_.align(kPage); }
  std::vector<ReadValue> read(const std::vector<std::uint64_t>& slots) {
    next_page();
    std::vector<ValueSlot> batch;
    for (const std::uint64_t address : slots) batch.push_back({0, 0, address});
    BatchReader reader(memory_, names_, {.with_contents = true});
    const Mapping all{.begin = kBase, .end = memory_.end(), .readable = true};
    reader.set_mappings(std::span(&all, 1));
    std::vector<ReadValue> values = reader.read_twice(batch, {}, {});
    was_late_ = reader.was_late();
    return values;
  }

  ChangingMemory memory_;
  bool was_late_ = false;
  FunctionNames names_ = [](std::uint64_t) { return ""; };
};

// Known pages: that of the slot, and that of the number.
TEST_F(BatchReaderTest, KnownValuesAreReadTwiceInOneStep) {
  const std::uint64_t slot = memory_.put<std::uint64_t>(0);
  next_page();
  const std::uint64_t clock = memory_.put<std::uint64_t>(7);
  next_page();
  const std::uint64_t held = memory_.put_block(0, {integer(5)});
  memory_.poke(slot, held);
  next_page();
  const std::uint64_t other = memory_.put_block(0, {integer(6)});
  next_page();
  BatchReader reader(memory_, names_, {});
  const Mapping all{.begin = kBase, .end = memory_.end(), .readable = true};
  reader.set_mappings(std::span(&all, 1));
  KnownValue known;
  const std::vector<ValueSlot> batch = {{0, 0, slot, &known}};
  std::uint64_t before = 0, after = 0;
  const MemoryPiece first{clock, std::as_writable_bytes(std::span(&before, 1))};
  const MemoryPiece last{clock, std::as_writable_bytes(std::span(&after, 1))};
  const auto peek = [&] {
    return reader.peek_twice(batch, {}, {}, std::span(&first, 1), std::span(&last, 1));
  };
  EXPECT_FALSE(peek().has_value()) << "nothing is known";
  known.read_set = reader.read_twice(batch, {}, {})[0].read_set;

  memory_.poke(held, integer(8));
  memory_.steps = 0;
  auto read = peek();
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(1, memory_.steps);
  EXPECT_EQ(8, (*read)[0].value.fields.at(0).integer);
  EXPECT_EQ(std::pair(before, after), std::pair(7ul, 7ul));

  bool is_first = true;
  memory_.after_read = [&](std::uint64_t page, int) {
    if (page != 2 || !std::exchange(is_first, false)) return;  // between the reads
    memory_.poke(held, integer(9));
    memory_.poke(clock, std::uint64_t{8});
  };
  read = peek();
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(9, (*read)[0].value.fields.at(0).integer) << "as at the second look";
  EXPECT_EQ(std::pair(before, after), std::pair(7ul, 8ul));

  memory_.poke(slot, other);
  EXPECT_FALSE(peek().has_value()) << "it has other parts";
}

// The page was read for one value before the program changed it, and the pointer of another value,
// read later, leads to it.
TEST_F(BatchReaderTest, DataOlderThanItsPointerIsNotUsed) {
  const std::uint64_t slots = memory_.put<std::uint64_t>(0);
  memory_.put<std::uint64_t>(0);
  next_page();
  const std::uint64_t number = memory_.put_block(0, {integer(5)});
  const std::uint64_t later = memory_.put_block(kString, {text_word("garbage")});
  next_page();
  const std::uint64_t held = memory_.put_block(0, {0});
  next_page();
  const std::uint64_t before = memory_.put_block(kString, {text_word("before ")});
  memory_.poke(slots, number);
  memory_.poke(slots + 8, held);
  memory_.poke(held, before);
  memory_.after_read = [&](std::uint64_t page, int times) {
    if (page != 1 || times != 2) return;  // at the second read
    memory_.poke(later, text_word("after  "));
    memory_.poke(held, later);
  };
  const std::vector<ReadValue> read_values = read({slots, slots + 8});
  ASSERT_EQ(read_values.size(), 2u);
  EXPECT_FALSE(read_values[0].differs);
  ASSERT_EQ(read_values[1].value.fields.size(), 1u);
  ASSERT_EQ(read_values[1].value.fields[0].text, "garbage") << "so the test is one";
  EXPECT_TRUE(read_values[1].differs);
}

// For a value that is read alone, the pointer is read first.
TEST_F(BatchReaderTest, AValueReadAloneMatchesItsPointer) {
  const std::uint64_t slot = memory_.put<std::uint64_t>(0);
  next_page();
  const std::uint64_t later = memory_.put_block(kString, {text_word("garbage")});
  next_page();
  const std::uint64_t held = memory_.put_block(0, {0});
  next_page();
  memory_.poke(slot, held);
  memory_.poke(held, memory_.put_block(kString, {text_word("before ")}));
  memory_.after_read = [&](std::uint64_t page, int times) {
    if (page != 0 || times != 2) return;
    memory_.poke(later, text_word("after  "));
    memory_.poke(held, later);
  };
  const std::vector<ReadValue> read_values = read({slot});
  EXPECT_EQ(read_values[0].value.fields[0].text, "after  ");
  EXPECT_FALSE(read_values[0].differs) << "each of the two was its value";
}

// Missing data is not the same as missing values.
TEST_F(BatchReaderTest, ReportsThatMemoryDoesNotAnswer) {
  const std::uint64_t slot = memory_.put<std::uint64_t>(0);
  next_page();
  memory_.poke(slot, memory_.put_block(0, {integer(5)}));
  read({slot});
  EXPECT_FALSE(was_late_);
  for (const int look : {1, 2}) {
    memory_.after_read = [&, look](std::uint64_t page, int times) {
      if (page == 0) memory_.hangs = times % 2 == look % 2;
    };
    read({slot});
    EXPECT_TRUE(was_late_) << "at look " << look;
  }
}

TEST_F(BatchReaderTest, ReadsManyPagesInFewSteps) {
  constexpr int kValues = 100;
  std::vector<std::uint64_t> slots;
  for (int i = 0; i < kValues; ++i) slots.push_back(memory_.put<std::uint64_t>(0));
  for (int i = 0; i < kValues; ++i) {
    next_page();
    memory_.poke(slots[static_cast<std::size_t>(i)],
                 memory_.put_block(0, {integer(static_cast<std::uint64_t>(i))}));
  }
  memory_.reads = 0;
  const std::vector<ReadValue> read_values = read(slots);
  for (std::size_t i = 0; i < kValues; ++i) {
    ASSERT_EQ(read_values[i].value.kind, ValueKind::kReference);
    EXPECT_EQ(read_values[i].value.fields[0].integer, static_cast<std::int64_t>(i));
  }
  EXPECT_EQ(memory_.steps, 3) << "of the words, of what they lead to, and all at the second look";
  EXPECT_EQ(memory_.reads, 2 * (kValues + 1));
}

// A long chain is read page by page at last, and completely.
TEST_F(BatchReaderTest, ReadsWhatIsDeep) {
  std::vector<std::uint64_t> slots = {memory_.put<std::uint64_t>(0), memory_.put<std::uint64_t>(0)};
  std::uint64_t list = integer(0);
  for (std::uint64_t i = 0; i < 20; ++i) {
    next_page();
    list = memory_.put_block(0, {integer(i), list});
  }
  memory_.poke(slots[0], list);
  memory_.poke(slots[1], list);
  for (const ReadValue& one : read(slots)) {
    EXPECT_EQ(one.value.kind, ValueKind::kList);
    EXPECT_EQ(one.value.size, 20u);
  }
}

// A value whose words are as they were is known, and need not be read again.
class KnownValuesTest : public BatchReaderTest {
 protected:
  // Values that change are then read.
  std::vector<bool> look(const std::vector<std::uint64_t>& addresses) {
    next_page();
    std::vector<ValueSlot> slots;
    for (const std::uint64_t address : addresses) {
      slots.push_back({.address = address, .known = &known_[address]});
    }
    BatchReader reader(memory_, names_, {});
    const std::uint64_t end = mapped_end_ != 0 ? mapped_end_ : memory_.end();
    const Mapping all{.begin = kBase, .end = end, .readable = true};
    reader.set_mappings(std::span(&all, 1));
    memory_.reads = 0;
    memory_.bytes = 0;
    std::vector<bool> changed = reader.find_changed(slots);
    reads_ = memory_.reads;
    bytes_ = memory_.bytes;
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (!changed[i]) continue;
      std::vector<ReadValue> read = reader.read_twice(std::span(slots).subspan(i, 1), {}, {});
      *slots[i].known = {std::move(read[0].read_set), nullptr};
    }
    return changed;
  }

  using Changed = std::vector<bool>;
  std::map<std::uint64_t, KnownValue> known_;
  int reads_ = 0;  // to find out which are changed
  std::size_t bytes_ = 0;
  std::uint64_t mapped_end_ = 0;  // 0: all
};

TEST_F(KnownValuesTest, AValueWithOtherWordsHasChanged) {
  const std::uint64_t one = memory_.put<std::uint64_t>(0), two = memory_.put<std::uint64_t>(0);
  const std::uint64_t number = memory_.put_block(0, {integer(1)});
  const std::uint64_t pair = memory_.put_block(0, {integer(1), integer(2)});
  const std::uint64_t beside = memory_.put_block(0, {integer(1)});
  memory_.poke(one, number);
  memory_.poke(two, pair);
  EXPECT_EQ(look({one, two}), (Changed{true, true})) << "nothing is known";
  memory_.poke(beside, integer(7));
  EXPECT_EQ(look({one, two}), (Changed{false, false}));
  EXPECT_EQ(reads_, 1) << "their page, once";
  memory_.poke(pair + 8, integer(3));
  EXPECT_EQ(look({one, two}), (Changed{false, true}));
  EXPECT_EQ(look({one, two}), (Changed{false, false}));
  memory_.poke(pair - 8, std::uint64_t{1} << 10);
  EXPECT_EQ(look({one, two}), (Changed{false, true})) << "its header";
  memory_.poke(one, beside);
  EXPECT_EQ(look({one, two}), (Changed{true, false})) << "another block";
}

// The collector colors blocks in each of its cycles.
TEST_F(KnownValuesTest, TheColorOfABlockIsNotPartOfItsValue) {
  const std::uint64_t slot = memory_.put<std::uint64_t>(0);
  const std::uint64_t inner = memory_.put_block(0, {integer(1), integer(0x180)});
  const std::uint64_t outer = memory_.put_block(0, {inner, inner});
  memory_.poke(slot, outer);
  EXPECT_EQ(look({slot}), Changed{true});
  memory_.poke(inner - 8, std::uint64_t{2 << 10 | 0x300});
  memory_.poke(outer - 8, std::uint64_t{2 << 10 | 0x100});
  EXPECT_EQ(look({slot}), Changed{false});
  memory_.poke(inner + 8, integer(0));
  EXPECT_EQ(look({slot}), Changed{true}) << "of another word these bits matter";
  memory_.poke(inner - 8, std::uint64_t{2 << 10 | 1});
  EXPECT_EQ(look({slot}), Changed{true}) << "its tag";
}

// Unreadable values are known as such until they can be read.
TEST_F(KnownValuesTest, SeesWhatHasComeSince) {
  const std::uint64_t slot = memory_.put<std::uint64_t>(0);
  next_page();
  memory_.poke(slot, memory_.end() + 8);
  EXPECT_EQ(look({slot}), Changed{true});
  EXPECT_EQ(look({slot}), Changed{false});
  memory_.put_block(0, {integer(4)});
  EXPECT_EQ(look({slot}), Changed{true});
}

// A page with one value is read no further than that value.
TEST_F(KnownValuesTest, ReadsWhatWordsAreKnown) {
  constexpr std::size_t kValues = 10;
  std::vector<std::uint64_t> slots;
  for (std::size_t i = 0; i < kValues; ++i) slots.push_back(memory_.put<std::uint64_t>(0));
  for (std::size_t i = 0; i < kValues; ++i) {
    next_page();
    memory_.poke(slots[i], memory_.put_block(0, {integer(i)}));
  }
  look(slots);
  EXPECT_EQ(look(slots), Changed(kValues, false));
  EXPECT_EQ(reads_, 1 + static_cast<int>(kValues)) << "of the words, and of what each leads to";
  EXPECT_EQ(bytes_, kValues * (8 + 16)) << "a header and a field each";
}

// Data across a page boundary is two pieces, which are compared as one.
TEST_F(KnownValuesTest, KnowsWhatIsOnTwoPages) {
  const std::uint64_t slot = memory_.put<std::uint64_t>(0);
  while (memory_.end() % kPage != kPage - 16) memory_.put<std::uint64_t>(0);
  const std::uint64_t pair = memory_.put_block(0, {integer(1), integer(2)});
  memory_.poke(slot, pair);
  look({slot});
  EXPECT_EQ(look({slot}), Changed{false});
  memory_.poke(pair + 8, integer(3));
  EXPECT_EQ(look({slot}), Changed{true});
}

// An unmapped page is left out, and a file that is mapped there now is not read.
TEST_F(KnownValuesTest, LeavesOutWhatHasGone) {
  std::vector<std::uint64_t> slots;
  for (int i = 0; i < 3; ++i) slots.push_back(memory_.put<std::uint64_t>(0));
  for (const std::uint64_t slot : slots) {
    next_page();
    memory_.poke(slot, memory_.put_block(0, {integer(slot)}));
  }
  look(slots);
  memory_.gone = kBase / kPage + 1;
  EXPECT_EQ(look(slots), (Changed{true, false, false}));
  EXPECT_EQ(bytes_, 3 * 8 + 2 * 16u) << "in whole pages nothing";
  look(slots);
  memory_.gone = 0;
  EXPECT_EQ(look(slots), (Changed{true, false, false}));
  std::vector<std::uint64_t> touched;
  memory_.after_read = [&](std::uint64_t page, int) { touched.push_back(page); };
  mapped_end_ = kBase + 3 * kPage;
  EXPECT_EQ(look(slots), (Changed{false, false, true}));
  EXPECT_EQ(std::count(touched.begin(), touched.end(), 3u), 0);
}

// Values with more words than are recorded are unknown.
TEST_F(KnownValuesTest, LargeValuesAreReadAgain) {
  const std::uint64_t slot = memory_.put<std::uint64_t>(0);
  std::uint64_t list = integer(0);
  for (std::uint64_t i = 0; i < 2 * ReadSet::kMaxParts; ++i) {
    list = memory_.put_block(0, {integer(i), list});
    memory_.put<std::uint64_t>(0);
  }
  memory_.poke(slot, list);
  EXPECT_EQ(look({slot}), Changed{true});
  EXPECT_EQ(look({slot}), Changed{true});
}

}  // namespace
}  // namespace memprofd
