// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/snapshot_command_line.h"

#include <CLI/CLI.hpp>

#include "daemon/ctl/query_options.h"

namespace memprofd::ctl {
namespace {

class HeapDumpCommandLine {
 public:
  HeapDumpCommandLine(CLI::App& app, Options& options, const AddCommand& add)
      : app_(app), options_(options), add_(add) {}

  void add_all() {
    add_live_why();
    snapshot_ = app_.add_subcommand("snapshot", "Take heap snapshots and analyze them");
    snapshot_->require_subcommand(1);
    add_take();
    add_list();
    for (const FileQuestion& question : file_questions()) {
      add_frames(*add_question(question.name, question.help, question.run), options_.query);
    }
    add_retained();
    add_why();
    CLI::App* diff = add_question("diff", "Compare two snapshots", &run_snapshot_diff);
    diff->add_option("other", options_.other_heap_file, "Later snapshot")
        ->type_name("OTHER")
        ->required();
    add_frames(*diff, options_.query);
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
    CLI::App* why = add_(
        app_, "why", "Show what keeps the blocks of an allocation site alive in a running process",
        &run_why);
    add_site(*why);
    add_pid(*why, "--pid");
    add_max_pause(*why, options_);
    add_cmt(*why);
    add_view(*why);
  }
  void add_take() {
    CLI::App* take =
        add_(*snapshot_, "take", "Take a snapshot and write it to a file", &run_snapshot_take);
    add_pid(*take, "pid,--pid");
    auto* out =
        take->add_option("--out", options_.out,
                         "Write to this file, or - for stdout (default: snapshot-PID-TIME.heap)")
            ->type_name("FILE");
    CLI::Option* keep = take->add_flag("--keep", options_.keep_heap,
                                       "Store it in memprofd's --snapshot.directory instead")
                            ->excludes(out);
    CLI::Option* contents =
        take->add_flag_callback(
                "--contents",
                [&options = options_] { options.heap_contents = pb::HEAP_CONTENTS_ALL; },
                "Include the contents of strings and float arrays, which may be secret")
            ->excludes(keep);
    take->add_flag_callback(
            "--fingerprints",
            [&options = options_] { options.heap_contents = pb::HEAP_CONTENTS_FINGERPRINTS; },
            "Include fingerprints that show which strings are equal, not their contents")
        ->excludes(keep)
        ->excludes(contents);
    add_max_pause(*take, options_);
    add_format(*take, options_.format, {kTable, kJson});
  }
  void add_list() {
    CLI::App* list =
        add_(*snapshot_, "list", "List the snapshots that memprofd stores", &run_snapshot_list);
    list->add_option("--pid", options_.pid, "List only snapshots of this process");
    add_format(*list, options_.format, {kTable, kJson});
  }
  void add_retained() {
    CLI::App* retained =
        add_question("retained", "Show how much memory modules, fields and stacks keep alive",
                     &run_snapshot_retained);
    retained->add_option("--depth", options_.heap_depth, "Unfold at most N levels")
        ->check(CLI::Range(1, 100))
        ->capture_default_str();
    retained
        ->add_option("--under", options_.heap_under,
                     "Show only roots whose name matches, such as 'Cache / field 2'")
        ->type_name("REGEX");
  }

  void add_why() {
    CLI::App* why = add_question("why", "Show what keeps the blocks of an allocation site alive",
                                 &run_snapshot_why);
    add_site(*why)->required(false);
    why->add_flag("--outside", options_.heap_outside,
                  "Select blocks that own native memory, such as Bigarrays; SITE then matches "
                  "their class, and may be omitted");
  }

  void add_query() {
    CLI::App* query =
        add_(*snapshot_, "query", "Run an SQL query over blocks, edges, roots and sites",
             &run_snapshot_query);
    add_file(*query);
    query->add_option("sql", options_.sql, "Query; docs/heap_sql.md lists the tables")
        ->type_name("SELECT")
        ->required();
    query->add_option("-n,--limit", options_.sql_rows, "Show at most N rows of a table (0: all)")
        ->capture_default_str();
    query->add_option("--out", options_.out, "Write to this file")->type_name("FILE");
    add_format(*query, options_.format, {kTable, kJson});
  }
  void add_convert() {
    CLI::App* convert =
        add_(*snapshot_, "convert", "Convert a snapshot for Chrome DevTools (.heapsnapshot)",
             &run_snapshot_convert);
    add_file(*convert);
    convert->add_option("--out", options_.out, "Write to this file")->type_name("FILE")->required();
  }

  void add_file(CLI::App& sub) {
    sub.add_option("file", options_.heap_file, "Heap snapshot to read")
        ->type_name("FILE")
        ->required();
    add_cmt(sub);
  }
  void add_cmt(CLI::App& sub) {
    sub.add_option(
           "--cmt", options_.heap_cmt,
           "Also look for source types in this .cmt or .cmi file, or below this folder; repeatable")
        ->type_name("PATH")
        ->allow_extra_args(false);
  }
  void add_view(CLI::App& sub) {
    sub.add_option("-n,--limit", options_.heap_limit,
                   "Show at most N rows, in trees below each row (0: all)")
        ->capture_default_str();
    sub.add_option("--out", options_.out, "Write to this file")->type_name("FILE");
    add_format(sub, options_.format, {kTable, kJson});
  }
  CLI::Option* add_site(CLI::App& sub) {
    add_frames(sub, options_.query);
    return sub
        .add_option("site", options_.heap_site,
                    "Select blocks whose callstack contains this function or file:line")
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
                 "Refuse if the process would be paused for longer (default: 50ms)")
      ->type_name("DURATION");
}

void add_snapshot_commands(CLI::App& app, Options& options, const AddCommand& add) {
  HeapDumpCommandLine(app, options, add).add_all();
}

}  // namespace memprofd::ctl
