// SPDX-License-Identifier: Apache-2.0
#include "daemon/doctor/doctor_process.h"

#include <gtest/gtest.h>

#include "daemon/attach/inject/seccomp_filter.h"
#include "tests/kit/temp_dir.h"

namespace memprofd {
namespace {

using Level = Finding::Level;

// A process in a /proc of its own that injection meets no obstacle in; tests put one there.
class DoctorProcess : public testing::Test {
 protected:
  static constexpr int kPid = 42;

  DoctorProcess() {
    status("S (sleeping)");
    write("maps", "7f0000000000-7f0000100000 r-xp 00000000 fe:00 1 /lib/libc.so.6\n");
    write("limits", "Max stack size            8388608              unlimited            bytes\n");
    agent_ = dir_.write("agent.so", "x");
    dir_.link("42/root", "/");
    for (const char* kind : {"mnt", "pid", "user"}) {
      dir_.link(std::string("42/ns/") + kind, std::string(kind) + ":[1]");
      dir_.link(std::string("self/ns/") + kind, std::string(kind) + ":[1]");
    }
  }

  void status(const std::string& state, const std::string& more = "") {
    write("status", "State:\t" + state + "\nTgid:\t42\nThreads:\t3\nTracerPid:\t0\n" + more);
  }
  void write(const std::string& name, const std::string& text) { dir_.write("42/" + name, text); }

  Finding find(const std::string& subject, bool injection_needed = true) const {
    for (const Finding& f : examine_process(ProcFs(dir_.path()), kPid, injection_needed, agent_))
      if (f.subject == subject) return f;
    return {Level::kOk, "", "no such finding", ""};
  }
  void expect_obstacle(Level level, const std::string& subject, const std::string& detail,
                       const std::string& remedy) const {
    const Finding finding = find(subject);
    EXPECT_EQ(finding.level, level) << subject;
    EXPECT_TRUE(forbids_injection(finding)) << subject;
    EXPECT_NE(finding.detail.find(detail), std::string::npos) << finding.detail;
    EXPECT_NE(finding.remedy.find(remedy), std::string::npos) << finding.remedy;
    const Finding harmless = find(subject, false);
    EXPECT_EQ(harmless.level, Level::kOk) << subject << ": no injection is needed";
    EXPECT_EQ(harmless.remedy, "");
  }

  TempDir dir_;
  std::string agent_;
};

TEST_F(DoctorProcess, AllIsWell) {
  for (const Finding& f : examine_process(ProcFs(dir_.path()), kPid, true, agent_)) {
    EXPECT_EQ(f.level, Level::kOk) << f.subject << ": " << f.detail;
    EXPECT_EQ(f.remedy, "") << f.subject;
  }
  EXPECT_EQ(find("state").detail, "3 threads");
  EXPECT_EQ(find("namespaces").detail, "those of memprofd");
  EXPECT_EQ(find("C library").detail, "GNU, /lib/libc.so.6");
  EXPECT_EQ(find("stack limit").detail, "8.00 MiB");
}

TEST_F(DoctorProcess, Traced) {
  status("S (sleeping)", "TracerPid:\t7\n");
  expect_obstacle(Level::kProblem, "tracer", "pid 7", "detach");
}

TEST_F(DoctorProcess, SeccompFilter) {
  status("S (sleeping)", "Seccomp:\t2\n");
  ASSERT_EQ(why_filters_are_hidden(), "") << "root, without a filter";
  EXPECT_EQ(find("seccomp").level, Level::kOk);
  EXPECT_NE(find("seccomp").detail.find("checks before"), std::string::npos);
}

TEST_F(DoctorProcess, StoppedWaits) {
  status("T (stopped)");
  EXPECT_EQ(find("state").level, Level::kWarning);
  EXPECT_NE(find("state").remedy.find("CONT"), std::string::npos);
}

TEST_F(DoctorProcess, EndedSaysNothingElse) {
  status("Z (zombie)");
  EXPECT_EQ(find("state").level, Level::kProblem);
  EXPECT_EQ(examine_process(ProcFs(dir_.path()), kPid, true, agent_).size(), 1u);
}

TEST_F(DoctorProcess, OtherNamespaces) {
  status("S (sleeping)", "NSpid:\t42\t7\n");
  std::filesystem::remove(dir_.path("42/ns/mnt"));
  dir_.link("42/ns/mnt", "mnt:[2]");
  EXPECT_EQ(find("namespaces").detail, "pid 7 inside; its own: mount");
}

TEST_F(DoctorProcess, AgentThatTheProgramDoesNotSee) {
  std::filesystem::remove(dir_.path("42/root"));
  dir_.link("42/root", dir_.path("42"));
  expect_obstacle(Level::kWarning, "file system", agent_, "/proc");
  dir_.write("42/proc/self", "");  // its root is 42
  EXPECT_EQ(find("file system").level, Level::kOk);
  EXPECT_NE(find("file system").detail.find("a copy in memory"), std::string::npos);
  EXPECT_EQ(find("file system", false).subject, "");
}

TEST_F(DoctorProcess, OtherLibraries) {
  write("maps", "7f0000000000-7f0000100000 r-xp 00000000 fe:00 1 /lib/ld-musl-x86_64.so.1\n");
  expect_obstacle(Level::kWarning, "C library", "musl", "GNU");
  write("maps", "00400000-00500000 r-xp 00000000 fe:00 1 /bin/server\n");
  expect_obstacle(Level::kWarning, "C library", "static", "memprof-agent");
}

TEST_F(DoctorProcess, SmallStack) {
  write("limits", "Max stack size            262144               unlimited            bytes\n");
  EXPECT_EQ(find("stack limit").level, Level::kWarning);
  EXPECT_EQ(find("stack limit", false).level, Level::kOk);
  write("limits", "Max stack size            unlimited            unlimited            bytes\n");
  EXPECT_EQ(find("stack limit").detail, "none");
}

TEST_F(DoctorProcess, NoSuchProcess) {
  EXPECT_TRUE(examine_process(ProcFs(dir_.path()), 43, true, agent_).empty());
}

}  // namespace
}  // namespace memprofd
