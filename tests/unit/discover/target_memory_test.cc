// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/target_memory.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <fstream>
#include <string>
#include <vector>

#include "daemon/discover/proc_fs.h"
#include "daemon/util/fd.h"
#include "tests/kit/ocaml_program.h"

namespace memprofd {
namespace {

using absl::StatusCode;

// A copy of this process that execs `sleep` on command.
class Copy {
 public:
  Copy() {
    int ends[2];
    if (::pipe(ends) != 0) std::abort();
    UniqueFd wait(ends[0]);
    tell_.reset(ends[1]);
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::close(ends[1]);
    char byte;
    (void)!::read(ends[0], &byte, 1);
    ::execlp("sleep", "sleep", "1000", nullptr);
    ::_exit(127);
  }
  ~Copy() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  int pid() const { return pid_; }
  void exec() {
    const std::string before = ProcFs().exe(pid_).value();
    tell_.reset();
    while (ProcFs().exe(pid_).value() == before) ::usleep(1000);
  }

 private:
  UniqueFd tell_;
  int pid_ = -1;
};

std::uint64_t address_of(const void* place) { return reinterpret_cast<std::uint64_t>(place); }

std::uint64_t word = 42;

TEST(TargetMemory, IsReadAndWritten) {
  const Copy copy;
  const auto memory = TargetMemory::open(copy.pid());
  ASSERT_TRUE(memory.ok()) << memory.status();
  std::uint64_t value = 0;
  ASSERT_TRUE((*memory)->read_value(address_of(&word), value).ok());
  EXPECT_EQ(value, 42u);
  ASSERT_TRUE((*memory)->write_value(address_of(&word), std::uint64_t{43}).ok());
  ASSERT_TRUE((*memory)->read_value(address_of(&word), value).ok());
  EXPECT_EQ(value, 43u);
  EXPECT_EQ(word, 42u) << "only the copy's";
  EXPECT_TRUE((*memory)->check().ok());
}

// A partial read, across the end of a mapping, is an error.
TEST(TargetMemory, PartialTransferIsAnError) {
  const auto memory = TargetMemory::open(::getpid()).value();
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const pages =
      ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  const std::uint64_t end = address_of(pages) + page;
  ASSERT_EQ(::munmap(reinterpret_cast<void*>(end), page), 0);
  std::array<std::byte, 32> bytes = {};
  EXPECT_TRUE(memory->read(end - 32, bytes).ok());
  EXPECT_EQ(memory->read(end - 16, bytes).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(memory->write(end - 16, bytes).code(), StatusCode::kOutOfRange);
  EXPECT_TRUE(memory->read(end - 16, {}).ok());
  EXPECT_EQ(memory->read(~std::uint64_t{0} - 8, bytes).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(memory->read(std::uint64_t{1} << 63, bytes).code(), StatusCode::kOutOfRange);
  ::munmap(pages, page);
}

// More pieces than a server takes at once, some of them large, up to the first missing one.
TEST(TargetMemory, PiecesAreReadInTheirOrder) {
  const auto memory = TargetMemory::open(::getpid()).value();
  constexpr std::size_t kPieces = 1000;
  std::vector<std::uint64_t> words(kPieces);
  for (std::size_t i = 0; i < kPieces; ++i) words[i] = i;
  std::vector<std::uint64_t> found(kPieces);
  std::vector<MemoryPiece> pieces;
  for (std::size_t i = 0; i < kPieces; ++i) {
    const std::span<std::uint64_t, 1> out(&found[i], 1);
    pieces.push_back({address_of(&words[kPieces - 1 - i]), std::as_writable_bytes(out)});
  }
  const WritableMemory& quick = memory->quick();
  for (const MemoryReader* reader :
       {static_cast<const MemoryReader*>(memory.get()), static_cast<const MemoryReader*>(&quick)}) {
    EXPECT_EQ(read_pieces(*reader, pieces).value(), kPieces);
    EXPECT_TRUE(std::equal(found.begin(), found.end(), words.rbegin()));
    std::fill(found.begin(), found.end(), 0);
  }
  pieces[700].address = 8;
  EXPECT_EQ(read_pieces(*memory, pieces).value(), 700u);
  EXPECT_EQ(found[699], kPieces - 1 - 699);
  std::fill(found.begin(), found.end(), 0);
  EXPECT_EQ(peek_pieces(*memory, pieces).value(), 700u);
  EXPECT_TRUE(std::equal(found.begin(), found.begin() + 700, words.rbegin()));
  EXPECT_EQ(found[701], 0u) << "what is behind it is not read";
  std::vector<std::byte> large(5 * kMaxMemoryTransfer / 2), copy(large.size(), std::byte{1});
  const std::span<std::byte> all(copy);
  const std::size_t half = copy.size() / 5 * 2;
  const MemoryPiece parts[] = {
      {address_of(large.data()), all.first(half)},
      {address_of(large.data()) + half, all.subspan(half, half)},
  };
  EXPECT_EQ(read_pieces(*memory, parts).value(), 2u);
  EXPECT_EQ(std::count(copy.begin(), copy.end(), std::byte{0}), 2 * half);
  const MemoryPiece too_large[] = {{address_of(large.data()), all}};
  EXPECT_EQ(read_pieces(*memory, too_large).status().code(), StatusCode::kInvalidArgument);
}

// Reads in order, as three reads of one address show; fails if one is missing.
TEST(TargetMemory, AnOrderIsWrittenCompletelyOrNotAtAll) {
  const Copy copy;
  const auto memory = TargetMemory::open(copy.pid()).value();
  const std::array<std::uint64_t, 3> values = {7, 8, 9};
  const auto read = [&] {
    std::uint64_t value = 0;
    EXPECT_TRUE(memory->read_value(address_of(&word), value).ok());
    return value;
  };
  for (const WritableMemory* to :
       {static_cast<const WritableMemory*>(memory.get()), &memory->quick()}) {
    MemoryOrder order;
    for (const std::uint64_t& value : values) order.put(address_of(&word), value);
    ASSERT_TRUE(memory->write_value(address_of(&word), std::uint64_t{1}).ok());
    ASSERT_TRUE(order.give(*to).ok());
    EXPECT_EQ(read(), 9u);
    order.put(8, values[0]);
    ASSERT_TRUE(memory->write_value(address_of(&word), std::uint64_t{1}).ok());
    EXPECT_EQ(order.give(*to).code(), StatusCode::kOutOfRange);
    EXPECT_EQ(read(), 1u);
    EXPECT_EQ(MemoryOrder().put(~std::uint64_t{0} - 2, values[0]).give(*to).code(),
              StatusCode::kOutOfRange);
  }
  EXPECT_TRUE(MemoryOrder().give(*memory).ok());
  EXPECT_EQ(word, 42u) << "only the copy's";
  MemoryOrder many;
  for (std::size_t i = 0; i <= kMaxMemoryPieces; ++i) many.put(address_of(&word), values[0]);
  EXPECT_EQ(many.give(*memory).code(), StatusCode::kInvalidArgument);
  const std::array<std::byte, kMaxMemoryTransfer> large = {};
  EXPECT_EQ(MemoryOrder().put(address_of(&word), large).give(*memory).code(),
            StatusCode::kInvalidArgument);
}

// Private memory of a process in kB.
std::uint64_t private_kb(int pid) {
  std::ifstream rollup("/proc/" + std::to_string(pid) + "/smaps_rollup");
  for (std::string line; std::getline(rollup, line);) {
    if (line.starts_with("Private_Dirty:")) return std::stoull(line.substr(14));
  }
  return 0;
}

// The copy's pages stay those of the program: a snapshot would have twice the memory in use.
TEST(TargetMemory, AViewLeavesPagesShared) {
  const std::vector<std::byte> bytes(64 << 20, std::byte{1});
  const Copy copy;
  const auto memory = TargetMemory::open_to_view(copy.pid()).value();
  const std::uint64_t before = private_kb(copy.pid());
  ASSERT_GT(before, 0u);
  for (std::size_t at = 0; at < bytes.size(); at += MemoryViewer::kMaxViewBytes) {
    ASSERT_TRUE(memory->view(address_of(&bytes[at]), MemoryViewer::kMaxViewBytes).ok());
  }
  EXPECT_LT(private_kb(copy.pid()) - before, 1 << 10);
}

TEST(TargetMemory, IsViewedWhereNoFileIs) {
  std::vector<std::uint64_t> words(100'000);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = i * i;
  const Copy copy;
  words[1] = 77;  // only here
  const auto memory = TargetMemory::open_to_view(copy.pid()).value();
  const auto view = memory->view(address_of(&words[1]), 8 * 60'000);
  ASSERT_TRUE(view.ok()) << view.status();
  const std::span seen(reinterpret_cast<const std::uint64_t*>(view->data()), 60'000);
  EXPECT_EQ(seen[0], 1u);
  EXPECT_TRUE(std::equal(seen.begin() + 1, seen.end(), words.begin() + 2));
  std::vector<std::uint64_t> read(words.size());
  ASSERT_TRUE(memory->read(address_of(words.data()), std::as_writable_bytes(std::span(read))).ok());
  EXPECT_TRUE(std::equal(read.begin() + 2, read.end(), words.begin() + 2));
  std::array<std::uint64_t, 2> pair = {};
  const auto out = std::as_writable_bytes(std::span(pair));
  const MemoryPiece pieces[] = {{address_of(&words[9]), out.first(8)},
                                {address_of(&words[7]), out.last(8)}};
  EXPECT_EQ(memory->read_pieces_without_files(pieces).value(), 2u);
  EXPECT_EQ(pair, (std::array<std::uint64_t, 2>{81, 49}));
  ASSERT_TRUE(memory->write_value(address_of(&word), std::uint64_t{43}).ok());
  EXPECT_EQ(seen[59'999], 60'000ull * 60'000) << "a view is good until the next one";
  EXPECT_EQ(memory->view(8, 8).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(memory->view(~std::uint64_t{0} - 8, 16).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(memory->view(address_of(&word), MemoryViewer::kMaxViewBytes + 1).status().code(),
            StatusCode::kInvalidArgument);
  const auto other = TargetMemory::open(copy.pid()).value();
  EXPECT_EQ(other->view(address_of(&word), 8).status().code(), StatusCode::kUnimplemented);
}

TEST(TargetMemory, AViewOfWhatHasGoneSaysSo) {
  Child child({"sleep", "1000"});
  const auto memory = TargetMemory::open_to_view(child.pid()).value();
  child.make_zombie();
  std::uint64_t value = 0;
  const MemoryPiece piece{0x1000, std::as_writable_bytes(std::span<std::uint64_t, 1>(&value, 1))};
  EXPECT_EQ(memory->view(0x1000, 8).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(memory->read_pieces_without_files(std::span(&piece, 1)).status().code(),
            StatusCode::kNotFound);
  child.finish();
}

TEST(TargetMemory, NothingOfTheNextProgramIsTouched) {
  Copy copy;
  const auto memory = TargetMemory::open(copy.pid()).value();
  copy.exec();
  EXPECT_EQ(MemoryOrder().put(address_of(&word), std::uint64_t{1}).give(*memory).code(),
            StatusCode::kNotFound);
  const auto maps = ProcFs().maps(copy.pid()).value();
  const auto writable =
      std::find_if(maps.begin(), maps.end(), [](const Mapping& m) { return m.writable; });
  ASSERT_NE(writable, maps.end());
  std::uint64_t before = 0, after = 0;
  const auto next = TargetMemory::open(copy.pid()).value();
  ASSERT_TRUE(next->read_value(writable->begin, before).ok());
  EXPECT_EQ(memory->read_value(writable->begin, after).code(), StatusCode::kNotFound);
  const MemoryPiece piece{writable->begin,
                          std::as_writable_bytes(std::span<std::uint64_t, 1>(&after, 1))};
  EXPECT_EQ(read_pieces(*memory, std::span(&piece, 1)).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(peek_pieces(*memory, std::span(&piece, 1)).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(memory->write_value(writable->begin, ~before).code(), StatusCode::kNotFound);
  EXPECT_EQ(memory->check().code(), StatusCode::kNotFound);
  ASSERT_TRUE(next->read_value(writable->begin, after).ok());
  EXPECT_EQ(after, before);
}

// A process like posix_spawn's: it shares our memory until it execs `sleep`.
class Sharer {
 public:
  Sharer() : stack_(1 << 20) {
    if (::pipe(ends_) != 0) std::abort();
    pid_ = ::clone(&Sharer::run, stack_.data() + stack_.size(), CLONE_VM | SIGCHLD, this);
  }
  ~Sharer() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  Sharer(const Sharer&) = delete;
  Sharer& operator=(const Sharer&) = delete;
  int pid() const { return pid_; }
  void exec() {
    const std::string before = ProcFs().exe(pid_).value();
    EXPECT_EQ(::write(ends_[1], "x", 1), 1);
    while (ProcFs().exe(pid_).value() == before) ::usleep(1000);
  }

 private:
  static int run(void* self) {
    char byte;
    (void)!::read(static_cast<Sharer*>(self)->ends_[0], &byte, 1);
    static char* const words[] = {const_cast<char*>("sleep"), const_cast<char*>("1000"), nullptr};
    ::execv("/bin/sleep", words);
    ::_exit(127);
  }

  std::vector<char> stack_;
  int ends_[2] = {-1, -1};
  int pid_ = -1;
};

// The memory that is open stays: we have it.
TEST(TargetMemory, AProcessThatSharesItsMemoryHasLeftItByExec) {
  Sharer sharer;
  const auto memory = TargetMemory::open(sharer.pid()).value();
  std::uint64_t value = 0;
  const MemoryPiece piece{address_of(&word),
                          std::as_writable_bytes(std::span<std::uint64_t, 1>(&value, 1))};
  EXPECT_TRUE(memory->check().ok());
  EXPECT_EQ(peek_pieces(*memory, std::span(&piece, 1)).value(), 1u);
  EXPECT_EQ(value, word);
  sharer.exec();
  EXPECT_EQ(memory->check().code(), StatusCode::kNotFound);
  const auto maps = ProcFs().maps(sharer.pid()).value();
  for (const Mapping& mapping : maps) {
    if (!mapping.readable || mapping.path == "[vvar]") continue;
    value = 0;
    const MemoryPiece theirs{mapping.begin, piece.out};
    EXPECT_FALSE(peek_pieces(*memory, std::span(&theirs, 1)).ok()) << mapping.path;
    EXPECT_EQ(value, 0u) << mapping.path;
  }
}

// A program may write to the bytes that identify its memory.
TEST(TargetMemory, AMarkMayBeOverwritten) {
  Copy copy;
  const auto memory = TargetMemory::open(copy.pid()).value();
  EXPECT_TRUE(memory->check().ok());
  ASSERT_TRUE(memory->write_value(::getauxval(AT_RANDOM), std::uint64_t{7}).ok());
  EXPECT_TRUE(memory->check().ok());
  std::uint64_t value = 0;
  const MemoryPiece piece{address_of(&word),
                          std::as_writable_bytes(std::span<std::uint64_t, 1>(&value, 1))};
  ASSERT_TRUE(memory->write_value(::getauxval(AT_RANDOM), std::uint64_t{8}).ok());
  EXPECT_EQ(peek_pieces(*memory, std::span(&piece, 1)).value(), 1u);
  EXPECT_EQ(value, word);
}

TEST(TargetMemory, EndedProcess) {
  Child child({"sleep", "1000"});
  const auto memory = TargetMemory::open(child.pid()).value();
  child.make_zombie();
  EXPECT_EQ(memory->check().code(), StatusCode::kNotFound);
  std::uint64_t word = 0;
  const MemoryPiece piece{8, std::as_writable_bytes(std::span<std::uint64_t, 1>(&word, 1))};
  EXPECT_EQ(peek_pieces(*memory, std::span(&piece, 1)).status().code(), StatusCode::kNotFound);
  child.finish();
  EXPECT_EQ(memory->check().code(), StatusCode::kNotFound);
  EXPECT_EQ(TargetMemory::open(0x7ffffffe).status().code(), StatusCode::kNotFound);
}

// Memory below a stack's mapping joins it when the program grows the stack.
TEST(TargetMemory, StackGrows) {
  const Copy copy;
  const auto stack = [&] {
    const auto maps = ProcFs().maps(copy.pid()).value();
    return *std::find_if(maps.begin(), maps.end(),
                         [](const Mapping& m) { return m.path == "[stack]"; });
  };
  const auto memory = TargetMemory::open(copy.pid()).value();
  const std::uint64_t below = stack().begin - 8192;
  EXPECT_TRUE(memory->write_stack(below, std::as_bytes(std::span(&word, 1))).ok());
  EXPECT_LE(stack().begin, below);
}

}  // namespace
}  // namespace memprofd
