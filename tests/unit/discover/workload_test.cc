// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/workload.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/kit/temp_dir.h"

namespace memprofd {
namespace {

const std::string kId(64, 'a');
const std::string kShown(12, 'a');

TEST(Workload, IsTheUnitOfSystemd) {
  EXPECT_EQ(parse_workload("0::/system.slice/shop-api.service\n"),
            (Workload{"shop-api.service", ""}));
  EXPECT_EQ(parse_workload("0::/user.slice/user-7.slice/user@7.service/app.slice/mail.service\n"),
            (Workload{"mail.service", ""}));
  EXPECT_EQ(parse_workload("4:memory:/x\n1:name=systemd:/system.slice/shop.service\n0::/\n"),
            (Workload{"shop.service", ""}));
  EXPECT_EQ(parse_workload("0::/user.slice/user-7.slice/session-3.scope\n"), Workload{});
}

TEST(Workload, IsTheContainer) {
  for (const std::string& path :
       {"/docker/" + kId, "/system.slice/docker-" + kId + ".scope",
        "/kubepods.slice/kubepods-pod1.slice/cri-containerd-" + kId + ".scope",
        "/kubepods/burstable/pod1/" + kId}) {
    EXPECT_EQ(parse_workload("0::" + path + "\n"), (Workload{"", kShown})) << path;
  }
  EXPECT_EQ(parse_workload("0::/machine.slice/libpod-" + kId + ".scope/container\n").container,
            kShown);
}

TEST(Workload, TakesAnyText) {
  for (const std::string& text :
       {std::string(), std::string("\n\n"), std::string("0"), std::string("0::"),
        std::string("0::/-/--.scope/" + std::string(64, 'g')), std::string(1000, ':'),
        std::string("\0:/\0", 4)}) {
    EXPECT_EQ(parse_workload(text), Workload{});
  }
}

TEST(Workload, IsReadFromProc) {
  const TempDir proc;
  proc.write("7/cgroup", "0::/system.slice/shop.service\n");
  EXPECT_EQ(workload_of(ProcFs(proc.path()), 7).unit, "shop.service");
  EXPECT_EQ(workload_of(ProcFs(proc.path()), 8), Workload{});
}

}  // namespace
}  // namespace memprofd
