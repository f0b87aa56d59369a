// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/http/web_config.h"

#include <crypt.h>
#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

constexpr std::chrono::seconds kRemember{60};
constexpr std::size_t kRememberedAtMost = 16;
constexpr std::size_t kLongestAuthorization = 1024;

absl::Status config_error(const std::string& path, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat("web config ", path, ": ", why));
}

absl::Status unknown_key(const std::string& path, const std::string& key) {
  return config_error(path, absl::StrCat(key, " is not supported; remove it"));
}

std::string relative_to(const std::string& config_path, const std::string& file) {
  return (std::filesystem::path(config_path).parent_path() / file).string();
}

absl::StatusOr<int> parse_tls_version(const std::string& path, const std::string& text) {
  if (text.size() == 5 && absl::StartsWith(text, "TLS1") && text[4] >= '0' && text[4] <= '3') {
    return text[4] - '0';
  }
  return config_error(path,
                      absl::StrCat("min_version ", text, ": write TLS10, TLS11, TLS12 or TLS13"));
}

// Refuses values that accept any certificate, because they protect nothing.
absl::StatusOr<ClientCertificates> parse_client_auth(const std::string& path,
                                                     const std::string& text) {
  if (text == "NoClientCert") return ClientCertificates::kNone;
  if (text == "VerifyClientCertIfGiven") return ClientCertificates::kIfGiven;
  if (text == "RequireAndVerifyClientCert") return ClientCertificates::kRequired;
  return config_error(path, absl::StrCat("client_auth_type ", text,
                                         " is not supported; write RequireAndVerifyClientCert, "
                                         "VerifyClientCertIfGiven or NoClientCert"));
}

absl::Status check_tls(const std::string& path, const WebConfig& config) {
  if (config.cert_file.empty() || config.key_file.empty()) {
    return config_error(path, "tls_server_config needs both cert_file and key_file");
  }
  if (config.client_ca_file.empty() != (config.client_certificates == ClientCertificates::kNone)) {
    return config_error(path,
                        "tls_server_config needs client_ca_file and a client_auth_type of "
                        "RequireAndVerifyClientCert or VerifyClientCertIfGiven together");
  }
  for (const std::string& file : {config.cert_file, config.key_file, config.client_ca_file}) {
    if (!file.empty() && ::access(file.c_str(), R_OK) != 0) {
      return config_error(path, absl::StrCat("cannot read ", file, "; check path and permissions"));
    }
  }
  return absl::OkStatus();
}

absl::Status read_tls(const std::string& path, const YAML::Node& node, WebConfig& config) {
  for (const auto& entry : node) {
    const auto key = entry.first.as<std::string>(), value = entry.second.as<std::string>();
    if (key == "cert_file") {
      config.cert_file = relative_to(path, value);
    } else if (key == "key_file") {
      config.key_file = relative_to(path, value);
    } else if (key == "client_ca_file") {
      config.client_ca_file = relative_to(path, value);
    } else if (key == "client_auth_type") {
      ASSIGN_OR_RETURN(config.client_certificates, parse_client_auth(path, value));
    } else if (key == "min_version") {
      ASSIGN_OR_RETURN(config.min_tls_minor, parse_tls_version(path, value));
    } else {
      return unknown_key(path, absl::StrCat("tls_server_config.", key));
    }
  }
  return check_tls(path, config);
}

absl::Status read_users(const std::string& path, const YAML::Node& node, WebConfig& config) {
  for (const auto& entry : node) {
    const auto user = entry.first.as<std::string>(), hash = entry.second.as<std::string>();
    if (!absl::StartsWith(hash, "$2") || hash.size() != 60) {
      return config_error(path, absl::StrCat("password of ", user,
                                             " is not a bcrypt hash; make one with htpasswd -nB"));
    }
    config.users[user] = hash;
  }
  return absl::OkStatus();
}

absl::StatusOr<WebConfig> read_config(const std::string& path, const YAML::Node& root) {
  WebConfig config;
  if (root.IsNull()) return config;
  if (!root.IsMap()) return config_error(path, "is not a YAML mapping");
  for (const auto& entry : root) {
    const auto key = entry.first.as<std::string>();
    if (key == "tls_server_config") {
      RETURN_IF_ERROR(read_tls(path, entry.second, config));
    } else if (key == "basic_auth_users") {
      RETURN_IF_ERROR(read_users(path, entry.second, config));
    } else {
      return unknown_key(path, key);
    }
  }
  return config;
}

// The time depends only on the length of `given`.
bool equal_in_constant_time(std::string_view given, std::string_view secret) {
  unsigned char difference = given.size() != secret.size();
  for (std::size_t i = 0; i < given.size(); ++i) {
    const char other = secret.empty() ? '\0' : secret[i % secret.size()];
    difference |= static_cast<unsigned char>(given[i] ^ other);
  }
  return difference == 0;
}

void wipe(std::string& text) { ::explicit_bzero(text.data(), text.size()); }

// "user:password" of a basic Authorization header.
bool decode_basic(std::string_view authorization, std::string& decoded) {
  const absl::string_view text(authorization.data(), authorization.size());
  if (text.size() > kLongestAuthorization || !absl::StartsWithIgnoreCase(text, "basic ")) {
    return false;
  }
  return absl::Base64Unescape(absl::StripAsciiWhitespace(text.substr(6)), &decoded) &&
         decoded.find(':') != decoded.npos;
}

}  // namespace

absl::StatusOr<WebConfig> load_web_config(const std::string& path) {
  try {  // yaml-cpp reports through exceptions
    return read_config(path, YAML::LoadFile(path));
  } catch (const YAML::BadFile&) {
    return config_error(path, "cannot be read; check path and permissions");
  } catch (const YAML::Exception& error) {
    return config_error(path, absl::StrCat("line ", error.mark.line + 1, ": ", error.msg));
  }
}

BasicAuth::BasicAuth(std::map<std::string, std::string> users) : users_(std::move(users)) {}

bool BasicAuth::remembers(std::string_view authorization, Clock::time_point now) {
  const MutexLock lock(granted_mutex_);
  std::erase_if(granted_, [&](Granted& granted) {
    const bool expired = granted.until <= now;
    if (expired) wipe(granted.authorization);
    return expired;
  });
  bool found = false;
  for (const Granted& granted : granted_) {
    found |= equal_in_constant_time(authorization, granted.authorization);
  }
  return found;
}

void BasicAuth::remember(std::string_view authorization, Clock::time_point now) {
  const MutexLock lock(granted_mutex_);
  if (granted_.size() < kRememberedAtMost) {
    granted_.push_back({std::string(authorization), now + kRemember});
  }
}

bool BasicAuth::password_matches(const std::string& user, const std::string& password) const {
  const auto known = users_.find(user);
  const std::string hash = known == users_.end() ? kNobodyHash : known->second;
  const auto data = std::make_unique<crypt_data>();  // 32 KiB; zeroed as crypt_r wants it
  const char* computed = ::crypt_r(password.c_str(), hash.c_str(), data.get());
  const bool equal = computed != nullptr && equal_in_constant_time(computed, hash);
  ::explicit_bzero(data.get(), sizeof *data);
  return equal && known != users_.end();
}

bool BasicAuth::allows(std::string_view authorization, Clock::time_point now) {
  if (users_.empty()) return true;
  std::string decoded;
  if (!decode_basic(authorization, decoded)) return false;
  bool allowed = remembers(authorization, now);
  if (!allowed) {
    const MutexLock lock(hashing_);
    const std::size_t colon = decoded.find(':');
    std::string password = decoded.substr(colon + 1);
    allowed = password_matches(decoded.substr(0, colon), password);
    wipe(password);
    if (allowed) remember(authorization, now);
  }
  wipe(decoded);
  return allowed;
}

std::string BasicAuth::user_of(std::string_view authorization) {
  std::string decoded;
  if (!decode_basic(authorization, decoded)) return "";
  std::string user = decoded.substr(0, decoded.find(':'));
  wipe(decoded);
  return user;
}

}  // namespace memprofd
