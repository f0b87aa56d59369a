// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/formats/pprof.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <cstdio>
#include <map>
#include <set>

#include "pprof/profile.pb.h"
#include "tests/kit/profile_model.h"
#include "tests/kit/temp_dir.h"

namespace memprofd {
namespace {

namespace pb = perftools::profiles;
using testing::ProfileModel;
using testing::run;

std::string gunzip(const std::string& data) {
  z_stream stream{};
  if (inflateInit2(&stream, 15 + 16) != Z_OK) return "";
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  std::string out;
  char buffer[65536];
  int rc = Z_OK;
  while (rc == Z_OK) {
    stream.next_out = reinterpret_cast<Bytef*>(buffer);
    stream.avail_out = sizeof buffer;
    rc = inflate(&stream, Z_NO_FLUSH);
    out.append(buffer, sizeof buffer - stream.avail_out);
  }
  inflateEnd(&stream);
  EXPECT_EQ(rc, Z_STREAM_END);
  return out;
}

// Checks what Parca's normalizer, Pyroscope's validation, Alloy's delta and the Collector's
// receiver require of a profile.
void expect_receivers_take(const pb::Profile& pb) {
  const auto is_text = [&](std::int64_t i) { return i >= 0 && i < pb.string_table_size(); };
  ASSERT_GT(pb.string_table_size(), 0);
  EXPECT_EQ(pb.string_table(0), "");
  EXPECT_GT(pb.period(), 0);
  EXPECT_GT(pb.time_nanos(), 0);
  for (int i = 0; i < pb.mapping_size(); ++i) {
    EXPECT_EQ(pb.mapping(i).id(), i + 1u) << "ids without gaps";
    ASSERT_TRUE(is_text(pb.mapping(i).build_id()));
    EXPECT_NE(pb.string_table(static_cast<int>(pb.mapping(i).build_id())), "");
  }
  std::set<std::pair<std::int64_t, std::int64_t>> names;
  for (int i = 0; i < pb.function_size(); ++i) {
    const pb::Function& function = pb.function(i);
    EXPECT_EQ(function.id(), i + 1u);
    ASSERT_TRUE(is_text(function.name()) && is_text(function.filename()));
    EXPECT_TRUE(names.emplace(function.name(), function.filename()).second) << "twice";
  }
  std::set<std::uint64_t> addresses, used;
  for (int i = 0; i < pb.location_size(); ++i) {
    const pb::Location& location = pb.location(i);
    EXPECT_EQ(location.id(), i + 1u);
    EXPECT_GE(location.mapping_id(), 1u);
    EXPECT_LE(location.mapping_id(), static_cast<std::uint64_t>(pb.mapping_size()));
    EXPECT_NE(location.address(), 0u);
    EXPECT_TRUE(addresses.insert(location.address()).second) << "an address of two locations";
    EXPECT_GT(location.line_size(), 0);
    for (const pb::Line& line : location.line()) {
      EXPECT_GE(line.function_id(), 1u);
      EXPECT_LE(line.function_id(), static_cast<std::uint64_t>(pb.function_size()));
    }
  }
  for (const pb::Sample& sample : pb.sample()) {
    EXPECT_EQ(sample.value_size(), pb.sample_type_size());
    EXPECT_GT(sample.location_id_size(), 0);
    used.insert(sample.location_id().begin(), sample.location_id().end());
    for (const pb::Label& label : sample.label()) {
      EXPECT_NE(label.key(), 0);
      EXPECT_FALSE(label.str() != 0 && label.num() != 0) << "of one kind";
    }
  }
  EXPECT_FALSE(used.contains(0));
  EXPECT_EQ(used.size(), static_cast<std::size_t>(pb.location_size()))
      << "all that are, and no other";
}

// A profile read back, with names in the place of numbers.
struct Read {
  struct Sample {
    std::vector<std::int64_t> values;
    std::vector<std::string> stack;  // functions, leaf first
    std::map<std::string, std::string> labels;
  };

  explicit Read(const std::vector<TargetProfile>& profiles, PprofKind kind = PprofKind::kHeap,
                const PprofLimits& limits = {}) {
    const std::string unpacked = gunzip(pprof_profile(profiles, kind, limits));
    bytes = unpacked.size();
    EXPECT_TRUE(pb.ParseFromString(unpacked));
    expect_receivers_take(pb);
    std::map<std::uint64_t, const pb::Location*> locations;
    std::map<std::uint64_t, const pb::Function*> functions;
    for (const auto& l : pb.location()) locations[l.id()] = &l;
    for (const auto& f : pb.function()) functions[f.id()] = &f;
    for (const pb::Sample& s : pb.sample()) {
      Sample& out = samples.emplace_back();
      out.values.assign(s.value().begin(), s.value().end());
      for (const std::uint64_t id : s.location_id()) {
        for (const pb::Line& line : locations.at(id)->line()) {
          out.stack.push_back(text(functions.at(line.function_id())->name()));
        }
      }
      for (const pb::Label& l : s.label()) {
        out.labels[text(l.key())] = l.str() != 0 ? text(l.str()) : std::to_string(l.num());
      }
    }
  }
  std::string text(std::int64_t index) const { return pb.string_table(static_cast<int>(index)); }

  std::int64_t total(std::size_t value) const {
    std::int64_t sum = 0;
    for (const Sample& sample : samples) sum += sample.values[value];
    return sum;
  }

  pb::Profile pb;
  std::size_t bytes = 0;  // unpacked
  std::vector<Sample> samples;
};

using Values = std::vector<std::int64_t>;
using Stack = std::vector<std::string>;

// Cache.add is inlined into Cache.insert; Parse.token calls itself.
ProfileModel example() {
  ProfileModel model;
  model.name(0x10, {{"Cache.add", "cache.ml", 10, 2, 9, "server"},
                    {"Cache.insert", "cache.ml", 55, 2, 9, "server"}});
  model.name(0x20, {{"Main.handle", "main.ml", 20, 2, 9, "server"}});
  model.name(0x30, {{"Main.run", "main.ml", 90, 2, 9, "server"}});
  model.name(0x40, {{"Parse.token", "parse.ml", 7, 0, 1, "server"}});
  model.add({0x10, 0x20, 0x30}, 100, 30).alloc_class.thread = 77;
  AllocClass& parse = model.add({0x40, run(3), 0x20, 0x30}, 50).alloc_class;
  parse.thread = 78;
  parse.heap = Heap::kMajor;
  parse.source = Source::kMarshal;
  model.add({}, 5, 1);
  model.profile.dropped_events = 7;
  return model;
}

TEST(PprofTest, TypesUnitsAndSpan) {
  const Read read({example().profile});
  std::vector<std::string> types;
  for (const pb::ValueType& type : read.pb.sample_type()) {
    types.push_back(read.text(type.type()) + "/" + read.text(type.unit()));
  }
  EXPECT_EQ(types, (std::vector<std::string>{"alloc_objects/count", "alloc_space/bytes",
                                             "inuse_objects/count", "inuse_space/bytes"}));
  EXPECT_EQ(read.text(read.pb.default_sample_type()), "inuse_space");
  EXPECT_EQ(read.text(read.pb.period_type().type()), "space");
  EXPECT_EQ(read.text(read.pb.period_type().unit()), "bytes");
  EXPECT_EQ(read.pb.period(), 800);
  EXPECT_EQ(read.pb.time_nanos(), 1'700'000'000'000'000'000);
  EXPECT_EQ(read.pb.duration_nanos(), 10'000'000'000);
  EXPECT_EQ(read.text(0), "");
  const Read allocs({example().profile}, PprofKind::kAllocs);
  EXPECT_EQ(allocs.text(allocs.pb.default_sample_type()), "alloc_space");
}

TEST(PprofTest, SamplesLeafFirstWithTheirLabels) {
  const Read read({example().profile});
  ASSERT_EQ(read.samples.size(), 3u);
  EXPECT_EQ(read.samples[0].values, (Values{1000, 80000, 300, 24000}));
  EXPECT_EQ(read.samples[0].stack, (Stack{"Cache.add", "Cache.insert", "Main.handle", "Main.run"}));
  EXPECT_EQ(read.samples[0].labels, (std::map<std::string, std::string>{{"pid", "42"},
                                                                        {"comm", "server"},
                                                                        {"heap", "minor"},
                                                                        {"source", "normal"},
                                                                        {"thread", "77"}}));
  EXPECT_EQ(read.samples[1].values, (Values{500, 40000, 0, 0}));
  EXPECT_EQ(read.samples[1].stack, (Stack{"Parse.token", "Parse.token", "Parse.token",
                                          "Parse.token", "Main.handle", "Main.run"}));
  EXPECT_EQ(read.samples[1].labels.at("heap"), "major");
  EXPECT_EQ(read.samples[1].labels.at("source"), "marshal");
  EXPECT_EQ(read.samples[2].stack, (Stack{"(unknown)"}));
  EXPECT_EQ(read.samples[2].labels.count("thread"), 0u) << "not known";
}

TEST(PprofTest, LocationsFunctionsAndMapping) {
  const Read read({example().profile});
  ASSERT_EQ(read.pb.location_size(), 5);
  const pb::Location& inlined = read.pb.location(0);
  EXPECT_EQ(inlined.address() & 0xffff'ffff'ffff, 0x10u);
  ASSERT_EQ(inlined.line_size(), 2);
  EXPECT_EQ(inlined.line(0).line(), 10);
  EXPECT_EQ(inlined.line(0).column(), 3);
  EXPECT_EQ(inlined.line(1).line(), 55);
  EXPECT_EQ(read.text(read.pb.function(0).filename()), "cache.ml");
  ASSERT_EQ(read.pb.mapping_size(), 1);
  EXPECT_EQ(read.text(read.pb.mapping(0).filename()), "/usr/bin/server");
  EXPECT_TRUE(read.pb.mapping(0).has_functions());
  EXPECT_TRUE(read.pb.mapping(0).has_inline_frames());
  EXPECT_EQ(inlined.mapping_id(), read.pb.mapping(0).id());
  EXPECT_EQ(read.pb.location(4).mapping_id(), 1u) << "(unknown) is in the program";
}

TEST(PprofTest, CombinedAllocationsAreLocationsOfTheirOwn) {
  ProfileModel model;
  model.name(0x10, {{.function = "first"}}, 0);
  model.name(0x10, {{.function = "second"}}, 1);
  model.add({0x10}, 1, 0, 0);
  model.add({0x10}, 1, 0, 1);
  const Read read({model.profile});
  ASSERT_EQ(read.pb.location_size(), 2);
  EXPECT_EQ(read.samples[0].stack, (Stack{"first"}));
  EXPECT_EQ(read.samples[1].stack, (Stack{"second"}));
}

TEST(PprofTest, RowsThatLookTheSameAreMerged) {
  ProfileModel model;
  model.add({1, 2}, 10, 1);
  model.add({1, 2}, 5, 1);                                    // another size, say
  model.add({9, 1, 2}, 1);                                    // the same without f9
  model.add({1, 2}, 1).alloc_class.source = Source::kCustom;  // another label
  model.hide({"f9"});
  const Read read({model.profile});
  ASSERT_EQ(read.samples.size(), 2u);
  EXPECT_EQ(read.samples[0].values, (Values{160, 12800, 20, 1600}));
  EXPECT_EQ(read.samples[1].labels.at("source"), "custom");
}

TEST(PprofTest, TargetsAreDistinguishedByLabels) {
  ProfileModel one(1, "one"), two(2, "two");
  one.add({5}, 1);
  two.add({5}, 2);
  two.profile.exe = "/opt/other";
  two.profile.sampling_rate = 0.001;
  two.profile.range.end_ns += 5'000'000'000;
  const Read read({one.profile, two.profile});
  ASSERT_EQ(read.samples.size(), 2u);
  EXPECT_EQ(read.samples[0].labels.at("pid"), "1");
  EXPECT_EQ(read.samples[1].labels.at("comm"), "two");
  EXPECT_EQ(read.pb.period(), 8000) << "of the coarser one";
  EXPECT_EQ(read.pb.duration_nanos(), 15'000'000'000);
  ASSERT_EQ(read.pb.comment_size(), 2);
  EXPECT_EQ(read.text(read.pb.comment(1)),
            "pid=2 sampling_rate=0.001 dropped_events=0 runtime=4.14.1 comm=two");
}

TEST(PprofTest, RoundingKeepsTotals) {
  ProfileModel model;
  double objects = 0;
  for (std::uint64_t i = 1; i <= 1000; ++i) {
    ProfileRow& row = model.add({i}, 0);
    row.counters.add_allocated(1, weight_of_word(0.003), 1001);  // 0.33 blocks, 2666.67 bytes
    objects += row.counters.allocated_objects;
  }
  const Read read({model.profile});
  Values sums(4);
  for (const Read::Sample& sample : read.samples) {
    for (std::size_t v = 0; v < 4; ++v) sums[v] += sample.values[v];
    EXPECT_NEAR(static_cast<double>(sample.values[1]), 8 / 0.003, 1);
  }
  EXPECT_EQ(sums, (Values{std::llround(objects), std::llround(1000 * 8 / 0.003), 0, 0}));
}

TEST(PprofTest, SinceTheAttachIsAMomentWithoutDuration) {
  ProfileModel model = example();
  model.profile.since_attach = true;
  model.profile.clock_set_by_ns = 3'000'000'000;
  const Read read({model.profile});
  EXPECT_EQ(read.pb.time_nanos(), 1'700'000'013'000'000'000) << "when it was made";
  EXPECT_EQ(read.pb.duration_nanos(), 0);
  ProfileModel other(43);
  other.profile.since_attach = true;
  other.profile.range.end_ns += 90'000'000'000;
  other.add({5}, 1, 1);
  EXPECT_EQ(Read({model.profile, other.profile}).pb.time_nanos(), 1'700'000'100'000'000'000);
}

TEST(PprofTest, MappingsHaveBuildIds) {
  ProfileModel model = example();
  model.name(0x50, {{"Plugin.run", "plugin.ml", 1, 0, 1, "plugin.cmxs"}});
  model.add({0x50, 0x30}, 1);
  model.symbolizer->build_ids = {{"", "aa11"}, {"server", "aa11"}};
  const Read read({model.profile});
  ASSERT_EQ(read.pb.mapping_size(), 2);
  EXPECT_EQ(read.text(read.pb.mapping(0).build_id()), "aa11");
  EXPECT_EQ(read.text(read.pb.mapping(1).filename()), "plugin.cmxs");
  EXPECT_EQ(read.text(read.pb.mapping(1).build_id()).size(), 16u) << "made of its name";
}

// Alloy takes the difference of two scrapes by the addresses of callstacks.
TEST(PprofTest, AddressesStayFromScrapeToScrape) {
  const auto addresses = [](const ProfileModel& model) {
    std::map<std::string, std::uint64_t> by_name;
    const Read read({model.profile});
    for (const auto& location : read.pb.location()) {
      const auto& function = read.pb.function(static_cast<int>(location.line(0).function_id()) - 1);
      by_name[read.text(function.name())] = location.address();
    }
    return by_name;
  };
  const auto model_of = [](bool other_order) {
    ProfileModel model;
    model.name(0x10, {{.function = "first"}}, 0);
    model.name(0x10, {{.function = "second"}}, 1);
    for (int i = 0; i < 2; ++i) model.add({0x10}, 1, 0, other_order ? 1 - i : i);
    if (other_order) model.add({0x20}, 1);
    model.add({}, 1);
    return model;
  };
  const auto before = addresses(model_of(false));
  auto after = addresses(model_of(true));
  EXPECT_EQ(before.size(), 3u);
  after.erase("f32");
  EXPECT_EQ(before, after);
}

// One program that runs twice has its locations once, and its samples by pid.
TEST(PprofTest, ProcessesOfAProgramShareLocations) {
  ProfileModel one(1), two(2), other(3);
  for (ProfileModel* model : {&one, &two, &other}) model->add({5, 6}, 1);
  other.profile.exe = "/usr/bin/other";
  other.symbolizer->build_ids = {{"server", "bb"}, {"", "bb"}};
  const Read read({one.profile, two.profile, other.profile});
  EXPECT_EQ(read.pb.location_size(), 4);
  EXPECT_EQ(read.samples.size(), 3u);
}

// A tree with many leaves below each of few callers.
ProfileModel wide(int callers, int leaves, int threads = 1) {
  ProfileModel model;
  for (int caller = 0; caller < callers; ++caller) {
    for (int leaf = 0; leaf < leaves; ++leaf) {
      for (int thread = 0; thread < threads; ++thread) {
        const auto n = static_cast<std::uint32_t>(leaf == 0 ? 1000 : 1 + leaf % 3);
        model
            .add({10'000u + static_cast<std::uint64_t>(caller * leaves + leaf),
                  100u + static_cast<std::uint64_t>(caller), 1},
                 n, n / 2)
            .alloc_class.thread = static_cast<std::uint32_t>(thread);
      }
    }
  }
  return model;
}

TEST(PprofTest, TheSmallerSamplesAreOtherBelowTheirCaller) {
  const ProfileModel model = wide(10, 200);
  const Read all({model.profile}), cut({model.profile}, PprofKind::kHeap, {.samples = 100});
  EXPECT_EQ(all.samples.size(), 2000u);
  EXPECT_LE(cut.samples.size(), 100u);
  for (std::size_t v = 0; v < 4; ++v) EXPECT_EQ(cut.total(v), all.total(v)) << v;
  const auto below = [](const Read& read, const std::string& caller) {
    std::int64_t sum = 0;
    for (const Read::Sample& sample : read.samples) {
      if (sample.stack.at(1) == caller) sum += sample.values[1];
    }
    return sum;
  };
  std::set<std::string> leaves;
  for (const Read::Sample& sample : cut.samples) leaves.insert(sample.stack.at(0));
  EXPECT_TRUE(leaves.contains("(other)"));
  for (int caller = 0; caller < 10; ++caller) {
    const std::string name = "f" + std::to_string(100 + caller);
    EXPECT_EQ(below(cut, name), below(all, name)) << "a caller's own total is right";
    EXPECT_TRUE(leaves.contains("f" + std::to_string(10'000 + 200 * caller)))
        << "a large one stays";
  }
}

TEST(PprofTest, ItFoldsAsFarAsItTakes) {
  const ProfileModel model = wide(300, 10, 20);
  const Read all({model.profile}), cut({model.profile}, PprofKind::kHeap, {.samples = 10});
  EXPECT_LE(cut.samples.size(), 10u);
  for (std::size_t v = 0; v < 4; ++v) EXPECT_EQ(cut.total(v), all.total(v)) << v;
}

TEST(PprofTest, ReceiversGetWhatTheyTake) {
  ProfileModel model = wide(20, 1000);
  for (std::uint64_t i = 0; i < 1000; ++i) {  // deep ones, that all differ
    std::vector<std::uint64_t> stack{1'000'000 + i};
    for (std::uint64_t depth = 0; depth < 1500; ++depth) stack.push_back(2'000'000 + depth);
    model.add(stack, 5);
  }
  const Read all({model.profile});
  const Read cut({model.profile}, PprofKind::kHeap, kReceiverLimits);
  EXPECT_GT(all.bytes, 4u << 20);
  EXPECT_LE(cut.bytes, 4u << 20);
  EXPECT_LE(cut.samples.size(), 16000u);
  EXPECT_GT(cut.samples.size(), 1000u);
  for (const auto& sample : cut.pb.sample()) EXPECT_LE(sample.location_id_size(), 1000);
  for (std::size_t v = 0; v < 4; ++v) EXPECT_EQ(cut.total(v), all.total(v)) << v;
}

TEST(PprofTest, WithoutCountsThereAreNoSamples) {
  ProfileModel model;
  model.add({1}, 0);
  EXPECT_EQ(Read({model.profile}).samples.size(), 0u);
  EXPECT_EQ(Read({}).samples.size(), 0u);
}

TEST(PprofTest, NamesFromTheTargetBecomeUtf8) {
  ProfileModel model(42, "evil\xff\n");
  model.profile.exe = "/tmp/\xc3(";
  model.name(1, {{.function = "\x80", .file = "\xff", .library = "m"}});
  model.add({1}, 1);
  const Read read({model.profile});  // protobuf refuses what is not UTF-8
  EXPECT_EQ(read.samples[0].stack, (Stack{"\xEF\xBF\xBD"}));
  EXPECT_EQ(read.samples[0].labels.at("comm"), "evil\xEF\xBF\xBD?");
}

// ---------------------------------------------------------------- Go's pprof

class GoPprofTest : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::vector<TargetProfile>& profiles,
                    PprofKind kind = PprofKind::kHeap) {
    return dir_.write(name, pprof_profile(profiles, kind));
  }
  // Output of `go tool pprof ARGUMENTS`, with repeated spaces merged.
  static std::string pprof(const std::string& arguments) {
    std::FILE* pipe = popen(("go tool pprof " + arguments + " 2>&1").c_str(), "r");
    if (pipe == nullptr) return "no shell";
    std::string out;
    for (int c; (c = std::fgetc(pipe)) != EOF;) {
      if (c != ' ' || out.empty() || out.back() != ' ') out += static_cast<char>(c);
    }
    EXPECT_EQ(pclose(pipe), 0) << "go tool pprof (package golang-go) is needed: " << out;
    return out;
  }
  static void expect_in(const std::string& wanted, const std::string& text) {
    EXPECT_NE(text.find(wanted), std::string::npos) << "no '" << wanted << "' in\n" << text;
  }
  const TempDir dir_;
};

TEST_F(GoPprofTest, Top) {
  const std::string file = write("heap.pb.gz", {example().profile});
  const std::string heap = pprof("-top -unit=B " + file);
  expect_in("File: server\n", heap);
  expect_in("dropped_events=7", heap);
  expect_in("Type: inuse_space\n", heap);
  expect_in("Duration: 10s, Total samples = 24800B", heap);
  expect_in(" 24000B 96.77% 96.77% 24000B 96.77% Cache.add (inline)\n", heap);
  expect_in(" 0 0% 100% 24000B 96.77% Main.run\n", heap);
  const std::string objects = pprof("-top -sample_index=alloc_objects " + file);
  expect_in(" 500 32.26% 96.77% 500 32.26% Parse.token\n", objects);
  expect_in(" 0 0% 100% 1500 96.77% Main.run\n", objects);
  const std::string allocs = write("allocs.pb.gz", {example().profile}, PprofKind::kAllocs);
  expect_in("Type: alloc_space\n", pprof("-top " + allocs));
}

TEST_F(GoPprofTest, RawOfAScrape) {
  ProfileModel model = example();
  model.profile.since_attach = true;
  model.symbolizer->build_ids = {{"", "aa11"}, {"server", "aa11"}};
  const std::string file =
      dir_.write("heap.pb.gz", pprof_profile({model.profile}, PprofKind::kHeap, kReceiverLimits));
  const std::string raw = pprof("-raw " + file);
  expect_in("PeriodType: space bytes\nPeriod: 800\nTime: 2023-11-14", raw);
  EXPECT_EQ(raw.find("Duration"), std::string::npos) << raw;
  expect_in("1: 0x0/0x0/0x0 /usr/bin/server aa11 [FN][FL][LN][IN]\n", raw);
  const std::string top = pprof("-top -unit=B " + file);
  expect_in("Build ID: aa11\n", top);
  expect_in("Showing nodes accounting for 24800B, 100% of 24800B total", top);
}

TEST_F(GoPprofTest, PeekShowsInlinedCallers) {
  const std::string text =
      pprof("-peek=Cache.insert -unit=B " + write("heap.pb.gz", {example().profile}));
  expect_in(" 24000B 100% | Main.handle\n", text);
  expect_in(" 0 0% 0% 24000B 96.77% | Cache.insert\n", text);
  expect_in(" 24000B 100% | Cache.add (inline)\n", text);
}

TEST_F(GoPprofTest, LinesAndTraces) {
  const std::string file = write("heap.pb.gz", {example().profile});
  expect_in(" Cache.add cache.ml:10 (inline)\n", pprof("-top -lines " + file));
  expect_in(" 39.06kB Parse.token\n Parse.token\n Parse.token\n Parse.token\n Main.handle\n",
            pprof("-traces -sample_index=alloc_space " + file));
}

TEST_F(GoPprofTest, DiffBase) {
  ProfileModel model = example();
  const std::string base = write("base.pb.gz", {model.profile});
  model.profile.rows[0].counters.add_live(20, weight_of_word(ProfileModel::kRate),
                                          ProfileModel::kBlockWords + 1);
  model.profile.rows[2].counters.remove_live(1, weight_of_word(ProfileModel::kRate),
                                             ProfileModel::kBlockWords + 1);
  const std::string now = write("now.pb.gz", {model.profile});
  const std::string text = pprof("-top -unit=B -diff_base=" + base + " " + now);
  expect_in(" 16000B 64.52% 64.52% 16000B 64.52% Cache.add (inline)\n", text);
  expect_in(" -800B 3.23% ", text);
}

TEST_F(GoPprofTest, LabelsSelect) {
  ProfileModel other(43, "other");
  other.add({5}, 1, 1);
  const std::string file = write("two.pb.gz", {example().profile, other.profile});
  expect_in(" 800B 3.12% 3.12% 800B 3.12% f5\n", pprof("-top -tagfocus=pid=43 -unit=B " + file));
  expect_in(" 40000B 32.05% 32.05% 40000B 32.05% Parse.token\n",
            pprof("-top -unit=B -sample_index=alloc_space -tagfocus=heap=major " + file));
  const std::string tags = pprof("-tags -sample_index=alloc_objects " + file);
  expect_in(" pid: Total 1560.0\n 1550.0 (99.36%): 42\n 10.0 ( 0.64%): 43\n", tags);
  expect_in(" source: Total 1560.0\n 1060.0 (67.95%): normal\n 500.0 (32.05%): marshal\n", tags);
  expect_in(" 500.0 (33.33%): 78\n", tags);
}

TEST_F(GoPprofTest, OcamlNamesAreNotTakenForCxx) {
  ProfileModel model;
  const std::set<std::string> names{"Op.<|>",   "Op.>>=",      "Foo.(fun)",
                                    "Foo.f[g]", "Foo.h<i>(j)", "camlA::b(c)"};
  std::uint64_t address = 1;
  for (const std::string& name : names) {
    model.name(address, {{.function = name}});
    model.add({address++}, 1, 1);
  }
  const std::string text = pprof("-top " + write("names.pb.gz", {model.profile}));
  for (const std::string& name : names) expect_in("% " + name + "\n", text);
}

}  // namespace
}  // namespace memprofd
