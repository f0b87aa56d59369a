// SPDX-License-Identifier: Apache-2.0
// Values of a program that replaces them all the time are never a mix of two moments. Each of its
// structures proves itself (tests/targets/torn): in each, a number follows from the one before. The
// same words read without a look at the heap's clock do tear, so what is not torn here is the
// clock's merit. `make torn-reads` reads ten million of each kind, of who watches a tenth as many.

#include <gtest/gtest.h>

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "daemon/discover/target.h"
#include "daemon/snapshot/block_header.h"
#include "daemon/symbolize/ocaml_symbolizer.h"
#include "daemon/values/page_cache.h"
#include "daemon/values/read_values.h"
#include "daemon/values/value_reader.h"
#include "daemon/values/value_watch.h"
#include "tests/kernel/child_process.h"
#include "tests/kit/full_length.h"

namespace memprofd {
namespace {

// Values that are read whole: a share of TORN_READS, where that says how many.
std::uint64_t wanted_reads(int always, int at_full_length, std::uint64_t share = 1) {
  const char* asked = std::getenv("TORN_READS");
  return asked != nullptr ? std::strtoull(asked, nullptr, 10) / share
                          : static_cast<std::uint64_t>(rounds_of(always, at_full_length));
}
// Of who watches, where the program is stopped again and again.
constexpr std::uint64_t kTenth = 10;

// As the program links its numbers.
std::int64_t link(std::int64_t x) { return (x & ~0xfffff) | ((x * 31 + 7) & 0xfffff); }

void add_numbers(const Value& value, std::vector<std::int64_t>& numbers) {
  if (value.kind == ValueKind::kInteger) numbers.push_back(value.integer);
  if (value.kind == ValueKind::kFloat) numbers.push_back(static_cast<std::int64_t>(value.number));
  for (std::size_t at = 0; value.kind == ValueKind::kString && at + 8 <= value.text.size();
       at += 8) {
    numbers.push_back(std::strtoll(value.text.substr(at, 8).c_str(), nullptr, 16));
  }
  for (const Value& field : value.fields) add_numbers(field, numbers);
}

// What a structure says of itself; empty: it is whole.
std::string flaw_of(const Value& value) {
  std::vector<std::int64_t> numbers;
  add_numbers(value, numbers);
  if (numbers.size() < 2) return "it has no numbers";
  for (std::size_t i = 1; i < numbers.size(); ++i) {
    if (numbers[i] != link(numbers[i - 1])) return "a number does not follow from the one before";
  }
  const Value& held = value.fields.at(0);
  if (held.kind == ValueKind::kList && held.size != 8) return "a list is cut";
  if (held.fields.empty() || held.fields.back().kind != ValueKind::kTable) return "";
  const bool has_all = held.fields.back().size == static_cast<std::uint64_t>(numbers[0] & 31);
  return has_all ? "" : "a table has not its bindings";
}

class TornReads : public ::testing::Test {
 protected:
  void start(const std::string& path, int workers) {
    workers_ = workers;
    if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
    // Collections as often as can be, and other memory each time.
    child_ = std::make_unique<ChildProcess>(std::vector<std::string>{path, std::to_string(workers)},
                                            std::vector<std::string>{"OCAMLRUNPARAM=s=32k"});
    auto target = discover_target(child_->pid());
    ASSERT_TRUE(target.ok()) << target.status();
    auto symbolizer = std::make_shared<OcamlSymbolizer>(
        std::move(target->program), target->load_bias, target->frames, LocationFormat::kLine);
    program_ = std::make_unique<ValueProgram>(*target, std::move(symbolizer));
  }

  void check_reads(std::uint64_t wanted) {
    read(wanted);
    read_until_replaced();
    print_counts();
    if (HasFailure()) return;
    EXPECT_GE(moments_, kStructures * static_cast<std::size_t>(workers_))
        << "structures were read at several moments";
    EXPECT_TRUE(tears_without_the_clock()) << "nothing tore in a minute: the program does not test";
  }

  void print_counts() const {
    std::uint64_t other = 0;
    for (const auto& [field, seen] : seen_) other += is_replaced(seen) ? seen.moments : 0;
    std::printf(
        "%llu values read whole, %llu of them other than at the look before, "
        "%llu told as unread or changing, %llu reads repeated\n",
        static_cast<unsigned long long>(whole_), static_cast<unsigned long long>(other),
        static_cast<unsigned long long>(told_), static_cast<unsigned long long>(overtaken_));
    std::fflush(stdout);
  }

  // As who watches, who is told what has changed; and that this is all.
  void check_watched(std::uint64_t wanted) {
    ValueWatch watch;
    watch_ = &watch;
    while ((whole_ < wanted || compared_ < 100) && !HasFailure()) {
      read(std::max(whole_ + 1, std::min(wanted, whole_ + wanted / 50)));
      ::kill(child_->pid(), SIGSTOP);
      ASSERT_EQ(::waitpid(child_->pid(), nullptr, WUNTRACED), child_->pid());
      compare_with_all();
      ::kill(child_->pid(), SIGCONT);
    }
    read_until_replaced();
    print_counts();
    EXPECT_GE(moments_, kStructures * static_cast<std::size_t>(workers_))
        << "structures were read at several moments";
  }

  // What stands still is what was told last, but for what it has stopped in the middle of.
  void compare_with_all() {
    ValuesRequest request = request_;
    request.watch = watch_;
    const auto told = read_values(*program_, request, [] { return true; });
    ASSERT_TRUE(told.ok()) << told.status();
    for (const NamedValue& named : told->values) last_[named.field] = named.value;
    const auto all = read_values(*program_, request_, [] { return true; });
    ASSERT_TRUE(all.ok()) << all.status();
    for (const NamedValue& named : all->values) {
      if (named.value.kind == ValueKind::kUnread || named.value.is_changing) continue;
      const auto last = last_.find(named.field);
      ASSERT_NE(last, last_.end()) << named.name();
      ASSERT_TRUE(last->second.same_as(named.value)) << named.name();
      ++compared_;
    }
  }

  // Until so many have been read whole.
  void read(std::uint64_t wanted) {
    ValuesRequest request = request_;
    request.watch = watch_;
    for (std::uint64_t printed = whole_ / kPrintEach; whole_ < wanted;) {
      if (whole_ / kPrintEach > printed) {
        printed = whole_ / kPrintEach;
        print_counts();
      }
      if (const auto known = watch_ == nullptr ? replaced() : std::nullopt) {
        request.what = ValuesRequest::What::kFields;
        request.fields = *known;
      }
      const auto answer = read_values(*program_, request, [] { return true; });
      ASSERT_TRUE(answer.ok()) << answer.status();
      ASSERT_GE(answer->fields, kStructures);
      overtaken_ += answer->repeated;
      told_ += answer->not_reached;
      for (const NamedValue& named : answer->values) {
        last_[named.field] = named.value;
        check(named);
      }
      ASSERT_FALSE(HasFailure());
    }
    moments_ = 0;
    for (const auto& [field, seen] : seen_) moments_ += seen.moments > 3 ? 1 : 0;
  }

  // What the number says that the program stops by, for who watches it.
  Value watched(ValueWatch& watch) {
    const ValuesRequest request{.pattern = R"(^Replacing\[)", .watch = &watch};
    const auto answer = read_values(*program_, request, [] { return true; });
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() && answer->values.size() == 1 ? answer->values[0].value : Value();
  }

  // Of a program that stands still: as if it had been stopped in the middle of a collection.
  void check_moving() {
    ValueWatch watch;
    while (watched(watch).kind != ValueKind::kReference) {
    }
    ::kill(child_->pid(), SIGSTOP);
    ASSERT_EQ(::waitpid(child_->pid(), nullptr, WUNTRACED), child_->pid());
    const auto found = program_->found();
    ASSERT_TRUE(found.ok());
    HeapClock::Words words;
    std::vector<MemoryPiece> pieces;
    (*found)->clock->add_pieces(words, pieces);
    const WritableMemory& memory = program_->memory();
    const std::uint64_t in_minor_collection = pieces[kInMinorCollection].address;
    const std::uint64_t number = number_that_stops(**found);
    const auto set = [&](std::uint64_t address, std::uint64_t word) {
      EXPECT_TRUE(memory.write_value(address, word).ok());
    };
    set(in_minor_collection, 0);
    set(number, 5 << 1 | 1);
    EXPECT_EQ(watched(watch).fields.at(0).integer, 5);
    set(number, 6 << 1 | 1);
    set(in_minor_collection, 1);
    EXPECT_EQ(watched(watch).why, WhyUnread::kMoving);
    set(in_minor_collection, 0);
    EXPECT_EQ(watched(watch).fields.at(0).integer, 6);
  }

  std::uint64_t number_that_stops(const ValueProgram::Layout& found) {
    std::uint64_t address = 0;
    for (const ModuleBlocks::Module& module : found.modules) {
      if (module.name != "Replacing") continue;
      EXPECT_TRUE(program_->memory().read_value(module.fields, address).ok());
    }
    return address;
  }

  // On, until what is replaced seldom has been, too.
  void read_until_replaced() {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (moments_ < kStructures * static_cast<std::size_t>(workers_) && !HasFailure() &&
           std::chrono::steady_clock::now() < until) {
      read(whole_ + 1);
    }
  }

  // Those that are known to be replaced; none at first: all are read.
  std::optional<std::vector<ModuleField>> replaced() const {
    std::vector<ModuleField> fields;
    for (const auto& [field, seen] : seen_) {
      if (is_replaced(seen)) fields.push_back({.module = module_, .field = field});
    }
    if (fields.size() < kStructures * static_cast<std::size_t>(workers_)) return std::nullopt;
    return fields;
  }

  void check(const NamedValue& named) {
    if (named.value.kind != ValueKind::kReference) return;  // functions: constants of the module
    const Value& held = named.value.fields.at(0);
    if (held.kind == ValueKind::kInteger) return;  // stopping
    if (named.value.is_changing) {
      ++told_;
      return;
    }
    const std::string flaw = flaw_of(named.value);
    ASSERT_EQ(flaw, "") << named.name();
    std::vector<std::int64_t> numbers;
    add_numbers(named.value, numbers);
    Seen& seen = seen_.try_emplace(named.field, Seen{.place = numbers[0] >> 20}).first->second;
    ASSERT_EQ(seen.place, numbers[0] >> 20) << named.name() << " is another one's";
    seen.moments += seen.last != numbers[0] ? 1 : 0;
    seen.last = numbers[0];
    module_ = named.place;
    if (is_replaced(seen)) ++whole_;  // what nobody replaces does not count
  }

  // The same words as they are found, whatever the collector does: until one is torn.
  bool tears_without_the_clock() {
    const auto found = program_->found();
    if (!found.ok()) return false;
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::chrono::steady_clock::now() < until) {
      if (reads_torn(**found)) return true;
    }
    return false;
  }

  bool reads_torn(const ValueProgram::Layout& found) {
    PageCache pages(program_->memory());
    const auto mappings = program_->mappings();
    if (!mappings.ok()) return false;
    pages.set_mappings(*mappings, found.image);
    for (const ModuleBlocks::Module& module : found.modules) {
      for (std::uint64_t field = 0; module.name == "Torn" && field < module.count; ++field) {
        std::uint64_t word = 0;
        pages.forget();
        if (!seen_.contains(static_cast<std::uint32_t>(field)) ||
            !pages.read_value(module.fields + field * kWordBytes, word).ok()) {
          continue;
        }
        ValueReader reader(
            pages, [](std::uint64_t) { return ""; }, true);
        const Value value = reader.read(word);
        if (value.fields.empty() || flaw_of(value) != "") return true;
      }
    }
    return false;
  }

  struct Seen {
    std::int64_t place = 0;
    std::int64_t last = 0;
    std::uint64_t moments = 0;
  };
  // Places of one kind are four workers', ten times.
  bool is_replaced(const Seen& seen) const { return seen.place % 4 < workers_; }

  static constexpr std::size_t kInMinorCollection = 4;    // of the clock's words, OCaml 4
  static constexpr std::uint64_t kPrintEach = 1'000'000;  // of hours
  static constexpr std::size_t kStructures = 70;          // of each worker
  int workers_ = 0;
  std::size_t module_ = 0;
  std::unique_ptr<ChildProcess> child_;
  std::unique_ptr<ValueProgram> program_;
  std::map<std::uint32_t, Seen> seen_;  // by field
  const ValuesRequest request_{.pattern = "^Torn\\[", .with_contents = true};
  ValueWatch* watch_ = nullptr;          // null: all is told at each look
  std::map<std::uint32_t, Value> last_;  // by field: what was told last
  std::uint64_t compared_ = 0;
  std::uint64_t whole_ = 0, told_ = 0, overtaken_ = 0;
  std::uint64_t moments_ = 0;  // structures that were seen at several
};

TEST_F(TornReads, OneThread) {
  start(target_path("torn"), 1);
  if (program_) check_reads(wanted_reads(5'000, 1'000'000));
}

TEST_F(TornReads, Threads) {
  start(target_path("torn"), 4);
  if (program_) check_reads(wanted_reads(1'000, 100'000));
}

TEST_F(TornReads, OneDomain) {
  start(target5_path("torn"), 1);
  if (program_) check_reads(wanted_reads(5'000, 1'000'000));
}

TEST_F(TornReads, SeveralDomains) {
  start(target5_path("torn"), 3);
  if (program_) check_reads(wanted_reads(1'000, 100'000));
}

TEST_F(TornReads, Watched) {
  start(target_path("torn"), 1);
  if (program_) check_watched(wanted_reads(5'000, 1'000'000, kTenth));
}

TEST_F(TornReads, WatchedWhileBlocksMove) {
  start(target_path("torn"), 1);
  if (program_) check_moving();
}

TEST_F(TornReads, WatchedDomains) {
  start(target5_path("torn"), 2);
  if (program_) check_watched(wanted_reads(1'000, 100'000, kTenth));
}

}  // namespace
}  // namespace memprofd
