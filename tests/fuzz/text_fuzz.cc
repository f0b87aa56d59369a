// SPDX-License-Identifier: Apache-2.0
// Texts of the kernel, of programs and of clients: files of /proc, symbol names, terminal output,
// times and sizes. The first byte selects the parser.
#include <iterator>

#include "daemon/control/heap_rule.h"
#include "daemon/ctl/selection_spec.h"
#include "daemon/discover/memory_status.h"
#include "daemon/discover/proc_fs.h"
#include "daemon/discover/workload.h"
#include "daemon/rss/mapping_classes.h"
#include "daemon/symbolize/symbol_names.h"
#include "daemon/util/net_address.h"
#include "daemon/util/units.h"
#include "daemon/util/utf8.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/kit/temp_dir.h"

namespace memprofd::fuzz {
namespace {

bool read_maps(std::string_view text) {
  const std::vector<Mapping> maps = parse_maps(text);
  for (const Mapping& mapping : maps) require(mapping.begin < mapping.end, "an empty mapping");
  PartNames names;
  const ClassifiedMappings found = classify_mappings(maps, "/bin/program", names);
  std::uint64_t end = 0;
  for (const Extent& extent : found.layer.extents()) {
    require(extent.begin >= end && extent.begin < extent.end, "extents that are not in order");
    require(names.name(extent.name).size() <= text.size(), "a name that is not there");
    end = extent.end;
  }
  return !maps.empty();
}

bool read_status(std::string_view text) {
  const auto status = parse_status(text);
  const auto memory = parse_memory_status(text);
  if (memory.ok()) require(memory->threads >= 0, "less than no threads");
  return status.ok() && memory.ok();
}

bool read_stat(std::string_view text) {
  for (const int field : {4, 22, 50, 51}) (void)parse_stat_field(text, field);
  return parse_stat_field(text, 22).ok();
}

bool read_cgroups(std::string_view text) {
  const Workload found = parse_workload(text);
  require(found.unit.size() <= text.size() && found.container.size() <= 12, "a unit from nowhere");
  return !found.unit.empty() || !found.container.empty();
}

bool read_environment(std::string_view text) {
  require(variable_of(text, "OCAMLRUNPARAM").size() <= text.size(), "more than there is");
  return text.find("OCAMLRUNPARAM=") != text.npos;
}

bool read_name(std::string_view text) {
  const std::string name = demangle(text);
  require(name.size() <= text.size() + sizeof ".(fun)", "a name that is too long");
  const std::string shown = printable(name);
  require(valid_utf8(shown) == shown, "what is printable is no UTF-8");
  for (const char c : shown) {
    require(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f, "a control character is printable");
  }
  for (const std::size_t width : {0u, 1u, 7u, 80u}) {
    for (const bool keep_end : {false, true}) {
      require(display_width(fit_width(shown, width, keep_end)) <= width, "wider than it may be");
    }
  }
  return !text.empty();
}

bool read_spec(std::string_view text) {
  constexpr std::int64_t kNow = 1'700'000'000'000'000'000;
  bool any = ctl::parse_selection(text, kNow).ok() | parse_heap_rule(text).ok() |
             parse_net_address(text).ok() | parse_size(text).ok() | parse_rate(text).ok() |
             parse_budget(text).ok();
  if (const auto seconds = parse_duration(text); seconds.ok()) {
    require(*seconds >= 0, "less than no time");
    require(!format_duration(*seconds).empty(), "a time that cannot be told");
    any = true;
  }
  return any;
}

constexpr bool (*kReaders[])(std::string_view) = {
    &read_maps, &read_status, &read_stat, &read_cgroups, &read_name, &read_spec, &read_environment};

bool read(std::string_view bytes) {
  if (bytes.empty()) return false;
  return kReaders[static_cast<unsigned char>(bytes[0]) % std::size(kReaders)](bytes.substr(1));
}

std::vector<std::string> seeds() {
  std::vector<std::string> all{
      std::string(1, 0) + read_file("/proc/self/maps").substr(0, 20'000),
      std::string(1, 0) +
          "00400000-0040b000 r-xp 00000000 fd:01 77 /bin/program\n"
          "0060b000-0060d000 rw-p 0000b000 fd:01 77 /bin/program\n"
          "0060d000-0062e000 rw-p 00000000 00:00 0 [heap]\n"
          "7f0000000000-7f0000001000 ---p 00000000 00:00 0 \n"
          "7f0000001000-7f0000801000 rw-p 00000000 00:00 0 \n"
          "7f0000801000-7f0000901000 r--p 00000000 fd:01 9 /a\\012b (deleted)\n",
      "\1" + read_file("/proc/self/status"),
      "\2" + read_file("/proc/self/stat"),
      "\3"
      "0::/system.slice/docker-" +
          std::string(64, 'a') + ".scope\n1:cpu:/a.service\n",
      "\6PATH=/bin" + std::string(1, 0) + "OCAMLRUNPARAM=b,s=4k"};
  for (const char* name :
       {"camlFoo__bar_123", "camlStdlib__Digest.file_12", "camlFoo__$2b$21_7", "camlFoo__entry",
        "camlDune__exe__Server__fun_304", "\xc3\xa9\xff\x1b"}) {
    all.push_back(std::string("\4") + name);
  }
  for (const char* spec :
       {"4242@-10m..", "trace.ctf@14:05..14:06:30", "@@1700000000..", "2026-01-31T14:05:30Z..",
        "live>2GiB", "at=03:00", "[::1]:9000", "1.5 MB", "90s", "1e-5", "0.5 %", "none"}) {
    all.push_back(std::string("\5") + spec);
  }
  std::erase_if(all, [](const std::string& seed) { return !read(seed); });
  require(all.size() > 20, "seeds are not understood");
  return all;
}

const Add added("text", {&read, &seeds});

}  // namespace
}  // namespace memprofd::fuzz
