// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/proc_fs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "tests/kit/temp_dir.h"

namespace memprofd {
namespace {

using ::testing::HasSubstr;

constexpr char kStatus[] =
    "Name:\tserver\nUmask:\t0022\nState:\tt (tracing stop)\nTgid:\t42\nPid:\t42\nTracerPid:\t77\n"
    "NSpid:\t42\t7\t1\nThreads:\t3\nSigQ:\t0/1\nSigBlk:\t0000000000000004\n"
    "SigIgn:\t0000000000001000\nSigCgt:\t8000000000000001\nSeccomp:\t2\n"
    "voluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t7\n";

TEST(ProcFs, ParsesStatus) {
  const auto status = parse_status(kStatus);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->state, 't');
  EXPECT_EQ(status->tgid, 42);
  EXPECT_EQ(status->tracer_pid, 77);
  EXPECT_EQ(status->threads, 3);
  EXPECT_EQ(status->ns_pids, (std::vector<int>{42, 7, 1}));
  EXPECT_EQ(status->seccomp, 2);
  EXPECT_EQ(status->signals_blocked, 4u);
  EXPECT_EQ(status->signals_ignored, 0x1000u);
  EXPECT_EQ(status->signals_caught, 0x8000000000000001u);
  EXPECT_EQ(status->switches, 157u);
}

TEST(ProcFs, ParsesWhereAThreadSleeps) {
  const auto call = parse_sleeping_call("0 0x3 0x7ffd 0x400 0x0 0xa 0x6 0x7ffd10 0x7f3e\n");
  ASSERT_TRUE(call);
  EXPECT_EQ(call->number, 0);
  EXPECT_EQ(call->arguments, (std::array<std::uint64_t, 6>{3, 0x7ffd, 0x400, 0, 10, 6}));
  EXPECT_EQ(call->stack_pointer, 0x7ffd10u);
  EXPECT_EQ(call->program_counter, 0x7f3eu);
  for (const char* text :
       {"running\n", "-1 0x7ffd10 0x7f3e\n", "", "0 0x3\n", "0 3 4 5 6 7 8 9 1\n"}) {
    EXPECT_FALSE(parse_sleeping_call(text)) << text;
  }
}

TEST(ProcFs, ParsesWhenAThreadRanLast) {
  EXPECT_EQ(parse_last_run("sh (1, #threads: 1)\n-----\n"
                           "se.exec_start                                :      123456.789012\n"
                           "se.vruntime                                  :           1.500000\n"),
            123456.789012);
  EXPECT_FALSE(parse_last_run("sh (1, #threads: 1)\nse.exec_start\n"));
}

TEST(ProcFs, StatusWithoutStateIsAnError) {
  EXPECT_EQ(parse_status("").status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(parse_status("Name:\tx\nState:\n").status().code(), absl::StatusCode::kDataLoss);
}

TEST(ProcFs, StartTimeSurvivesAnyComm) {
  const std::string fields = " S 1 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 3 0 987654 9 10\n";
  for (const char* comm : {"server", "a) S 1 (b", ") ) )", "", "two words"}) {
    const auto ticks = parse_stat_field("42 (" + std::string(comm) + ")" + fields, 22);
    ASSERT_TRUE(ticks.ok()) << comm << ticks.status();
    EXPECT_EQ(*ticks, 987654u) << comm;
  }
  EXPECT_FALSE(parse_stat_field("42 (x) S 1 2 3", 22).ok());
  EXPECT_FALSE(parse_stat_field("", 22).ok());
}

TEST(ProcFs, ParsesMaps) {
  const auto maps = parse_maps(
      "555500000000-555500001000 r-xp 00002000 fd:01 1234                 /opt/my app (deleted)\n"
      "7fff00000000-7fff00001000 rw-p 00000000 00:00 0                          [stack]\n"
      "7fff00002000-7fff00003000 ---s 00000000 00:00 0 \n"
      "7fff00004000-7fff00005000 r--p 00000000 00:21 7 /a\\012b\n"
      "garbage\n"
      "5000-4000 r--p 0 00:00 0\n");
  ASSERT_EQ(maps.size(), 4u);
  EXPECT_EQ(maps[0].begin, 0x555500000000u);
  EXPECT_EQ(maps[0].end, 0x555500001000u);
  EXPECT_EQ(maps[0].offset, 0x2000u);
  EXPECT_EQ(maps[0].inode, 1234u);
  EXPECT_EQ(maps[0].device, makedev(0xfd, 1));
  EXPECT_TRUE(maps[0].readable && maps[0].executable && !maps[0].writable);
  EXPECT_EQ(maps[0].path, "/opt/my app (deleted)");
  EXPECT_EQ(maps[1].path, "[stack]");
  EXPECT_TRUE(maps[1].writable);
  EXPECT_EQ(maps[2].path, "");
  EXPECT_FALSE(maps[2].readable);
  EXPECT_EQ(maps[3].path, "/a\nb");
}

TEST(ProcFs, ReadsAFakeTree) {
  TempDir dir;
  dir.write("42/status", kStatus);
  dir.write("42/comm", "my server\n");
  dir.write("42/task/44/status", "State:\tS (sleeping)\n");
  dir.write("42/task/43/status", "State:\tR (running)\n");
  dir.link("42/exe", "/usr/bin/server");
  const ProcFs proc(dir.path());
  EXPECT_EQ(*proc.comm(42), "my server");
  EXPECT_EQ(*proc.exe(42), "/usr/bin/server");
  EXPECT_EQ(*proc.tasks(42), (std::vector<int>{43, 44}));
  EXPECT_EQ(proc.thread_status(42, 43)->state, 'R');
  EXPECT_EQ(proc.status(42)->state, 't');
  EXPECT_EQ(proc.path(42, "exe"), dir.path("42/exe"));
}

TEST(ProcFs, FindsWholeVariablesOfTheEnvironment) {
  using namespace std::string_view_literals;
  constexpr auto kAll = "XOCAMLRUNPARAM=no\0OCAMLRUNPARAM=s=4k,b\0LAST=\0"sv;
  EXPECT_EQ(variable_of(kAll, "OCAMLRUNPARAM"), "s=4k,b");
  EXPECT_EQ(variable_of(kAll, "LAST"), "");
  EXPECT_EQ(variable_of(kAll, "RUNPARAM"), "");
  EXPECT_EQ(variable_of("", "OCAMLRUNPARAM"), "");
}

TEST(ProcFs, MissingProcessIsNotFound) {
  TempDir dir;
  const ProcFs proc(dir.path());
  const absl::Status missing = proc.status(4242).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(missing.message(), "no process with pid 4242");
  EXPECT_TRUE(absl::IsNotFound(proc.start_time(4242).status()));
  EXPECT_TRUE(absl::IsNotFound(proc.exe(4242).status()));
  EXPECT_TRUE(absl::IsNotFound(proc.maps(4242).status()));
  EXPECT_TRUE(absl::IsNotFound(proc.tasks(4242).status()));
}

TEST(ProcFs, NoExeLinkIsAFailedPrecondition) {
  TempDir dir;
  dir.write("2/status", "State:\tS (sleeping)\n");
  EXPECT_TRUE(absl::IsFailedPrecondition(ProcFs(dir.path()).exe(2).status()));
}

TEST(ProcFs, KernelRefusalsSayWhatToDo) {
  const absl::Status status = process_error(42, EPERM, "read the memory");
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  const std::uint64_t all = ProcFs().status(::getpid())->capabilities;
  const bool privileged = (all >> CAP_SYS_PTRACE & 1) != 0 && (all >> CAP_DAC_OVERRIDE & 1) != 0;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(privileged ? "read the memory of pid 42: its user namespace or a security "
                                     "module protects it even from root"
                                   : "read the memory of pid 42: run memprofd as root or give it "
                                     "CAP_SYS_PTRACE and CAP_DAC_OVERRIDE"));
  EXPECT_EQ(process_error(42, ESRCH, "x").code(), absl::StatusCode::kNotFound);
}

TEST(ProcFs, ReadsThisProcess) {
  const ProcFs proc;
  const int pid = ::getpid();
  const auto status = proc.status(pid);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->tgid, pid);
  EXPECT_GT(*proc.start_time(pid), 0u);
  EXPECT_EQ(*proc.parent(pid), ::getppid());
  const auto maps = proc.maps(pid);
  ASSERT_TRUE(maps.ok());
  const std::string exe = *proc.exe(pid);
  const auto here = reinterpret_cast<std::uint64_t>(&process_error);
  bool found = false;
  for (const Mapping& mapping : *maps) {
    if (here < mapping.begin || here >= mapping.end) continue;
    found = true;
    EXPECT_EQ(mapping.path, exe);
    EXPECT_TRUE(mapping.executable);
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace memprofd
