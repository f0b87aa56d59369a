// Roll-up of rows to sites and other groups, computed on read.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/store/profile.h"
#include "daemon/store/query.h"
#include "daemon/store/snapshot.h"
#include "daemon/store/visible_frames.h"

namespace memprofd {

// What makes a group; other fields are empty. A row's site is its innermost
// visible location.
struct GroupName {
  Location location;         // kSite, kCallstack: function, file, line of the site;
                             // kFunction: function, file; kFile: file; kLibrary: module
  std::string unit;          // kModule
  std::uint32_t thread = 0;  // kThread
  std::uint32_t domain = 0;  // kDomain
  // kCallstack: at most VisibleFrames::kMaxLocations, never null.
  std::vector<std::shared_ptr<const Location>> path;

  friend std::strong_ordering operator<=>(const GroupName& a, const GroupName& b);
  friend bool operator==(const GroupName& a, const GroupName& b) { return (a <=> b) == 0; }
};

// Counts of several classes. An object's variance cannot be had from the sum of
// counters, because blocks differ in size.
struct GroupCounts {
  Counters counters;
  double allocated_objects_variance = 0;  // blocks squared
  double live_objects_variance = 0;

  // counters: of one allocation class.
  void add_class(const Counters& counters);
  GroupCounts& operator+=(const GroupCounts& other);
};

struct Group : GroupName, GroupCounts {
  // Of the group's callstacks the one that weighs most by the query's measure.
  std::shared_ptr<const Callstack> heaviest;  // null: no rows
  // Its locations, when asked for; of kCallstack always.
  std::vector<Location> callstack;

  const GroupName& name() const { return *this; }
  // Of the rows that frames belongs to.
  void set_callstack(VisibleFrames& frames);
};

struct GroupQuery {
  GroupBy group_by = GroupBy::kSite;
  Measure order = Measure::kLive;
  std::size_t limit = 0;  // 0: all
  bool with_callstack = true;
};

struct GroupResult {
  // Largest first; ties by name, so that equal inputs give equal outputs.
  std::vector<Group> groups;
  GroupCounts total;         // of all groups, those beyond the limit included
  std::size_t n_groups = 0;  // without the limit
};

GroupResult roll_up(const TargetProfile& profile, const GroupQuery& query);
// All sites since the attach, in no order, without callstacks.
std::vector<Group> all_sites(const TargetSnapshot& snapshot);

// Bytes, samples, blocks, or, for kLifetime, the median in seconds.
double measure_value(const Counters& counters, Measure measure);
// One standard error of it; 0 for kLifetime. Of samples: how far the number goes
// up and down from run to run.
double measure_stderr(const GroupCounts& counts, Measure measure);

// The compilation unit of an OCaml function: what comes before the first dot, if
// it can be the name of a unit ("Dune__exe__Main.Sub.f" -> "Dune__exe__Main"; a
// unit's own code has no dot). Of all else the ELF file ("caml_alloc_string" ->
// "server.exe"), which is no unit's name, or "(no module)".
std::string compilation_unit(const Location& location);

// Largest first, ties by name; at most limit (0: all).
void sort_groups(std::vector<Group>& groups, Measure order, std::size_t limit);

// Numbers the groups of rows, densely in the order they come. Rows of one frames
// only; names compare across targets. Not thread-safe.
class Grouper {
 public:
  // frames must outlive this.
  Grouper(VisibleFrames& frames, GroupBy by) : frames_(frames), by_(by) {}
  std::size_t group_of(const AllocClass& alloc_class, const Callstack& callstack);
  // The group of blocks allocated there; not for kCallstack, kThread, kDomain.
  std::size_t group_of(LocationId site);
  std::size_t size() const { return names_.size(); }
  const GroupName& name(std::size_t group) const { return names_[group]; }

 private:
  std::size_t number(GroupName name);
  std::size_t group_of_path(const Callstack& callstack);
  std::size_t group_of_number(std::uint32_t thread_or_domain);
  GroupName name_of(const Location& site) const;

  VisibleFrames& frames_;
  const GroupBy by_;
  std::vector<GroupName> names_;
  std::vector<std::uint32_t> by_site_;  // by LocationId: group + 1; 0: not seen yet
  absl::flat_hash_map<std::string, std::size_t> by_text_;
  absl::flat_hash_map<std::vector<LocationId>, std::size_t> by_path_;
  absl::flat_hash_map<std::uint32_t, std::size_t> by_number_;
};

}  // namespace memprofd
