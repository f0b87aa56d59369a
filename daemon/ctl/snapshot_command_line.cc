// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/snapshot_command_line.h"

#include <CLI/CLI.hpp>

#include "daemon/ctl/query_options.h"

namespace memprofd::ctl {
namespace {

class SnapshotCommandLine {
 public:
  SnapshotCommandLine(CLI::App& app, Options& options, const AddCommand& add)
      : app_(app), options_(options), add_(add) {}

  void add_all() {
    add_live_why();
    snapshot_ = app_.add_subcommand("snapshot",
                                    "Take snapshots of whole heaps, ask what is in them and why");
    snapshot_->require_subcommand(1);
    add_take();
    add_list();
    add_question("show", "Count blocks by kind, shape, size and site, and free memory",
                 &run_snapshot_show);
    add_retained();
    add_why();
    add_question("diff", "Show what is different in a later snapshot", &run_snapshot_diff)
        ->add_option("other", options_.other_heap_file, "Compare with this later one")
        ->type_name("OTHER")
        ->required();
    add_question("garbage", "Show what waits for the collector, by site, and how old it is",
                 &run_snapshot_garbage);
    add_question("waste", "Show memory that could be had for less", &run_snapshot_waste);
    add_query();
    add_convert();
  }

 private:
  CLI::App* add_question(const char* name, const char* help, Command command) {
    CLI::App* sub = add_(*snapshot_, name, help, command);
    add_file(*sub);
    add_view(*sub);
    return sub;
  }
  void add_live_why() {
    CLI::App* why =
        add_(app_, "why", "Show what keeps the memory of an allocation site, in a running program",
             &run_why);
    add_site(*why);
    add_pid(*why, "--pid");
    add_max_pause(*why, options_);
    add_cmt(*why);
    add_view(*why);
  }
  void add_take() {
    CLI::App* take = add_(*snapshot_, "take", "Take one, into a file", &run_snapshot_take);
    add_pid(*take, "pid,--pid");
    auto* out = take->add_option("--out", options_.out,
                                 "Write to this file, or - for stdout (default: "
                                 "snapshot-PID-TIME.heap)")
                    ->type_name("FILE");
    CLI::Option* keep = take->add_flag("--keep", options_.keep_heap,
                                       "Leave it with memprofd, in its --snapshot.directory")
                            ->excludes(out);
    CLI::Option* contents =
        take->add_flag_callback(
                "--contents",
                [&options = options_] { options.heap_contents = pb::HEAP_CONTENTS_ALL; },
                "Keep what strings and float arrays hold, which may be secret")
            ->excludes(keep);
    take->add_flag_callback(
            "--fingerprints",
            [&options = options_] { options.heap_contents = pb::HEAP_CONTENTS_FINGERPRINTS; },
            "Keep which strings are equal, and not what they hold")
        ->excludes(keep)
        ->excludes(contents);
    add_max_pause(*take, options_);
    add_format(*take, options_.format, {kTable, kJson});
  }
  void add_list() {
    CLI::App* list =
        add_(*snapshot_, "list", "List the snapshots that memprofd keeps", &run_snapshot_list);
    list->add_option("--pid", options_.pid, "List those of this process only");
    add_format(*list, options_.format, {kTable, kJson});
  }
  void add_retained() {
    CLI::App* retained = add_question("retained", "Show what modules, fields and stacks keep alive",
                                      &run_snapshot_retained);
    retained->add_option("--depth", options_.heap_depth, "Unfold so many blocks below each other")
        ->check(CLI::Range(1, 100))
        ->capture_default_str();
    retained
        ->add_option("--under", options_.heap_under,
                     "Show only roots whose name matches, such as 'Cache / field 2'")
        ->type_name("REGEX");
  }

  void add_why() {
    CLI::App* why =
        add_question("why", "Show what keeps the memory of an allocation site", &run_snapshot_why);
    add_site(*why)->required(false);
    why->add_flag("--outside", options_.heap_outside,
                  "Ask of blocks that hold C's memory or a Bigarray's, whose class matches instead "
                  "of a callstack; all of them without a pattern");
  }

  void add_query() {
    CLI::App* query = add_(*snapshot_, "query", "Ask in SQL, over blocks, edges, roots and sites",
                           &run_snapshot_query);
    add_file(*query);
    query->add_option("sql", options_.sql, "Select from the tables that docs/snapshots.md lists")
        ->type_name("SELECT")
        ->required();
    query->add_option("-n,--limit", options_.sql_rows, "Show so many rows of a table (0: all)")
        ->capture_default_str();
    query->add_option("--out", options_.out, "Write to this file")->type_name("FILE");
    add_format(*query, options_.format, {kTable, kJson});
  }
  void add_convert() {
    CLI::App* convert =
        add_(*snapshot_, "convert", "Write it for Chrome's DevTools (.heapsnapshot)",
             &run_snapshot_convert);
    add_file(*convert);
    convert->add_option("--out", options_.out, "Write to this file")->type_name("FILE")->required();
  }

  void add_file(CLI::App& sub) {
    sub.add_option("file", options_.heap_file, "Read this heap snapshot")
        ->type_name("FILE")
        ->required();
    add_cmt(sub);
  }
  void add_cmt(CLI::App& sub) {
    sub.add_option("--cmt", options_.heap_cmt,
                   "Look for .cmt and .cmi files in this folder too, or take this one (repeatable)")
        ->type_name("PATH")
        ->allow_extra_args(false);
  }
  void add_view(CLI::App& sub) {
    sub.add_option("-n,--limit", options_.heap_limit,
                   "Show so many rows, in trees below each row (0: all)")
        ->capture_default_str();
    sub.add_option("--out", options_.out, "Write to this file")->type_name("FILE");
    add_format(sub, options_.format, {kTable, kJson});
  }
  CLI::Option* add_site(CLI::App& sub) {
    return sub
        .add_option("site", options_.heap_site,
                    "Take blocks whose callstack has such a function or file:line")
        ->type_name("REGEX")
        ->required();
  }
  void add_pid(CLI::App& sub, const char* names) {
    sub.add_option(names, options_.pid,
                   "Name the process; may be omitted when there is one target");
  }

  CLI::App& app_;
  Options& options_;
  const AddCommand& add_;
  CLI::App* snapshot_ = nullptr;
};

}  // namespace

void add_max_pause(CLI::App& sub, Options& options) {
  sub.add_option("--max-pause", options.max_pause,
                 "Refuse when the program would be stopped for longer (default: 50ms)")
      ->type_name("DURATION");
}

void add_snapshot_commands(CLI::App& app, Options& options, const AddCommand& add) {
  SnapshotCommandLine(app, options, add).add_all();
}

}  // namespace memprofd::ctl
