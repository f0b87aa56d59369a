// SPDX-License-Identifier: Apache-2.0
// A certificate authority in a folder and the certificates it signs: ca.pem, NAME.pem, NAME.key.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"

namespace memprofd::testing {

inline bool has_openssl() { return ::access("/usr/bin/openssl", X_OK) == 0; }

class Certificates {
 public:
  explicit Certificates(std::string folder) : folder_(std::move(folder)) {
    run(absl::StrCat("openssl req -x509 ", kKey,
                     " -days 2 -keyout ca.key -out ca.pem -subj /CN=authority"));
  }
  // purpose: "clientAuth", "serverAuth"; empty: any.
  void sign(const std::string& name, const std::string& purpose = "") {
    const std::string extended =
        purpose.empty() ? "" : absl::StrCat("extendedKeyUsage=", purpose, "\n");
    run(absl::StrCat("printf 'subjectAltName=DNS:", name, "\n", extended, "' > ext"));
    run(absl::StrCat("openssl req ", kKey, " -keyout ", name, ".key -out ", name,
                     ".csr -subj /CN=", name));
    run(absl::StrCat("openssl x509 -req -in ", name, ".csr -CA ca.pem -CAkey ca.key ",
                     "-CAcreateserial -days 2 -extfile ext -out ", name, ".pem"));
  }
  // A self-signed certificate.
  void sign_itself(const std::string& name) {
    run(absl::StrCat("openssl req -x509 ", kKey, " -days 2 -keyout ", name, ".key -out ", name,
                     ".pem -subj /CN=", name));
  }

 private:
  static constexpr char kKey[] = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";

  void run(const std::string& command) const {
    EXPECT_EQ(::system(absl::StrCat("cd ", folder_, " && ", command, " 2>/dev/null").c_str()), 0)
        << command;
  }

  const std::string folder_;
};

}  // namespace memprofd::testing
