// SPDX-License-Identifier: Apache-2.0
// Command lines of run and check.
#include "daemon/ctl/run_options.h"

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "daemon/ctl/command_line.h"
#include "daemon/ctl/query_options.h"
#include "daemon/ctl/run_files.h"

namespace memprofd::ctl {
namespace {

// Options of both. Returns the option of the program.
CLI::Option* add_options(CLI::App& app, Options& options, RunOptions& own,
                         const char* example_option) {
  app.fallthrough(false);
  CLI::Option* program =
      app.add_option("program", own.program, "The program and its arguments, after --")
          ->type_name("PROGRAM [ARGUMENT...]");
  app.add_option("--out", own.outs,
                 "Write to this file; its extension selects the format (" + run_file_endings() +
                     "); repeatable")
      ->type_name("FILE")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_trace_version(app, own.trace_version);
  add_sampling_rate(app, "--sampling-rate,--rate", options.rate, options.interval);
  app.add_option("--agent", own.agent, "Use this agent library")->type_name("FILE");
  app.add_flag("-q,--quiet", own.quiet, "Print no report");
  app.footer("Example: memprofctl " + app.get_name() + " " + example_option +
             " -- ./my_program --its --arguments");
  return program;
}

void add_rule(CLI::App& app, RunOptions& own, const char* name,
              std::vector<std::string> RuleOptions::*member, const char* help,
              const char* type = "[REGEX=]SIZE") {
  app.add_option_function<std::vector<std::string>>(
         name,
         [&own, member](const std::vector<std::string>& texts) { (*own.rules).*member = texts; },
         help)
      ->type_name(type)
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void add_text(CLI::App& app, RunOptions& own, const char* name, std::string RuleOptions::*member,
              const char* help, const char* type) {
  app.add_option_function<std::string>(
         name, [&own, member](const std::string& text) { (*own.rules).*member = text; }, help)
      ->type_name(type);
}

}  // namespace

void add_run(const CommandLine& line, CLI::App& app) {
  Options& options = line.options();
  RunOptions& own = line.set_up(
      app, "Start a program and profile it from its first allocation to its end; needs no root",
      &run_run);
  CLI::Option* program = add_options(app, options, own, "--out flame.html");
  CLI::Option* pid =
      app.add_option("--pid", options.pid,
                     "Profile this running process of the same user instead, until Ctrl-C")
          ->type_name("PID")
          ->check([](const std::string& pid) {
            return std::atoi(pid.c_str()) > 0 ? "" : "a pid is a positive number, not " + pid;
          })
          ->excludes(program);
  app.add_option("--for", own.duration,
                 "With --pid: end after this time, such as 30s; the process continues")
      ->type_name("DURATION")
      ->needs(pid);
  app.add_option("--children", own.children,
                 "How to profile the children that it forks or starts. sum: totals by program; "
                 "each: a report for each child; no: ignore them (default: sum)")
      ->check(CLI::IsMember({kSumChildren, kEachChild, kNoChildren}))
      ->excludes(pid)
      ->type_name("MODE");
  app.add_flag("--live", own.live,
               "While it runs, print live memory to stderr once per second, like top");
}

void add_check(const CommandLine& line, CLI::App& app) {
  RunOptions& own = line.set_up(
      app, "Run a program and exit with 1 if its heap breaks a limit or an assertion; for CI",
      &run_run);
  own.rules.emplace();
  add_rule(app, own, "--max-live", &RuleOptions::max_live,
           "Limit live bytes at the end, of all sites or of callstacks that match REGEX");
  add_rule(app, own, "--max-peak", &RuleOptions::max_peak, "Limit live bytes at the peak");
  add_rule(app, own, "--max-allocated", &RuleOptions::max_allocated, "Limit all allocated bytes");
  add_rule(app, own, "--max-growth", &RuleOptions::max_growth,
           "Limit the growth of leaking sites after the first quarter of the run; 0: no leak");
  add_rule(app, own, "--max-lifetime", &RuleOptions::max_lifetime,
           "Limit the lifetime of 99 % of the allocated bytes", "[REGEX=]DURATION");
  add_rule(app, own, "--max-age", &RuleOptions::max_age,
           "Limit the age of the oldest block that is alive at the end", "[REGEX=]DURATION");
  add_text(app, own, "--rules", &RuleOptions::file, "Also check the rules in this YAML file",
           "FILE");
  add_text(app, own, "--baseline", &RuleOptions::baseline,
           "Limit live and allocated bytes to those of an earlier run --out FILE.json", "FILE");
  add_text(app, own, "--tolerance", &RuleOptions::tolerance,
           "Allow PERCENT more than the baseline (default: 5%)", "PERCENT");
  add_text(app, own, "--junit", &RuleOptions::junit, "Write the results as JUnit XML", "FILE");
  add_text(app, own, "--markdown", &RuleOptions::markdown, "Write the results as Markdown", "FILE");
  add_options(app, line.options(), own, "--max-peak 64MiB")->required();
}

}  // namespace memprofd::ctl
