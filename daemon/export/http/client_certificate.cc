// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/http/client_certificate.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <microhttpd.h>

#include <array>
#include <memory>
#include <type_traits>

#include "absl/strings/str_cat.h"

namespace memprofd {
namespace {

constexpr std::size_t kLongestName = 256;

struct FreeCertificate {
  void operator()(gnutls_x509_crt_t certificate) const { gnutls_x509_crt_deinit(certificate); }
};
using Certificate = std::unique_ptr<std::remove_pointer_t<gnutls_x509_crt_t>, FreeCertificate>;

absl::Status untrusted(std::string_view why) {
  return absl::PermissionDeniedError(
      absl::StrCat("the client's certificate: ", absl::string_view(why.data(), why.size()),
                   " Show one for clients that an authority of client_ca_file has signed"));
}

absl::Status verify(gnutls_session_t session) {
  std::string purpose = GNUTLS_KP_TLS_WWW_CLIENT;
  gnutls_typed_vdata_st wanted{GNUTLS_DT_KEY_PURPOSE_OID,
                               reinterpret_cast<unsigned char*>(purpose.data()), 0};
  unsigned status = 0;
  if (const int error = gnutls_certificate_verify_peers(session, &wanted, 1, &status); error < 0) {
    return untrusted(absl::StrCat(gnutls_strerror(error), "."));
  }
  if (status == 0) return absl::OkStatus();
  gnutls_datum_t text{};
  std::string why = "It cannot be trusted.";
  if (gnutls_certificate_verification_status_print(status, GNUTLS_CRT_X509, &text, 0) >= 0) {
    why.assign(reinterpret_cast<const char*>(text.data), text.size);
    gnutls_free(text.data);
  }
  while (!why.empty() && (why.back() == ' ' || why.back() == '\0')) why.pop_back();
  return untrusted(why);
}

std::vector<std::string> names_of(gnutls_x509_crt_t certificate) {
  std::vector<std::string> names;
  std::array<char, kLongestName> name{};
  std::size_t length = name.size();
  if (gnutls_x509_crt_get_dn_by_oid(certificate, GNUTLS_OID_X520_COMMON_NAME, 0, 0, name.data(),
                                    &length) == 0) {
    names.emplace_back(name.data(), length);
  }
  for (unsigned i = 0;; ++i) {
    length = name.size();
    const int kind =
        gnutls_x509_crt_get_subject_alt_name(certificate, i, name.data(), &length, nullptr);
    if (kind == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE) return names;
    if (kind == GNUTLS_SAN_DNSNAME || kind == GNUTLS_SAN_RFC822NAME) {
      names.emplace_back(name.data(), length);
    }
  }
}

}  // namespace

absl::StatusOr<std::vector<std::string>> client_certificate_names(MHD_Connection* connection) {
  const MHD_ConnectionInfo* info =
      MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
  if (info == nullptr || info->tls_session == nullptr) return std::vector<std::string>();
  auto* const session = static_cast<gnutls_session_t>(info->tls_session);
  unsigned count = 0;
  const gnutls_datum_t* const chain = gnutls_certificate_get_peers(session, &count);
  if (chain == nullptr || count == 0) return std::vector<std::string>();
  if (absl::Status status = verify(session); !status.ok()) return status;
  gnutls_x509_crt_t first = nullptr;
  if (gnutls_x509_crt_init(&first) != 0) return untrusted("There is no memory for it.");
  const Certificate certificate(first);
  if (gnutls_x509_crt_import(first, &chain[0], GNUTLS_X509_FMT_DER) != 0) {
    return untrusted("It cannot be read.");
  }
  return names_of(first);
}

}  // namespace memprofd
