// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/clients/tls_files.h"

#include <fmt/chrono.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include <ctime>
#include <memory>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "daemon/util/pem_file.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

struct FreeCredentials {
  void operator()(gnutls_certificate_credentials_t credentials) const {
    gnutls_certificate_free_credentials(credentials);
  }
};
using Credentials =
    std::unique_ptr<std::remove_pointer_t<gnutls_certificate_credentials_t>, FreeCredentials>;

std::string name_of(const TlsFile& file) { return absl::StrCat(file.option, " ", file.path); }

absl::Status file_error(const TlsFile& file, absl::string_view cause_and_remedy) {
  return absl::InvalidArgumentError(absl::StrCat(name_of(file), ": ", cause_and_remedy));
}

gnutls_datum_t datum_of(const std::string& text) {
  return {reinterpret_cast<unsigned char*>(const_cast<char*>(text.data())),
          static_cast<unsigned>(text.size())};
}

absl::StatusOr<Credentials> new_credentials() {
  gnutls_certificate_credentials_t credentials = nullptr;
  if (gnutls_certificate_allocate_credentials(&credentials) != 0) {
    return absl::ResourceExhaustedError("TLS: there is no memory to check certificates");
  }
  return Credentials(credentials);
}

// Checks the server's own certificate, which is the first one in its file.
absl::Status check_validity(const TlsFile& file, gnutls_certificate_credentials_t credentials) {
  gnutls_x509_crt_t* chain = nullptr;
  unsigned count = 0;
  if (gnutls_certificate_get_x509_crt(credentials, 0, &chain, &count) != 0) {
    return file_error(file, "holds no certificate; give the server's own one, with its chain");
  }
  const std::time_t now = std::time(nullptr);
  const std::time_t begin = count == 0 ? 0 : gnutls_x509_crt_get_activation_time(chain[0]);
  const std::time_t end = count == 0 ? 0 : gnutls_x509_crt_get_expiration_time(chain[0]);
  for (unsigned i = 0; i < count; ++i) gnutls_x509_crt_deinit(chain[i]);
  gnutls_free(chain);
  const auto utc = [](std::time_t time) {
    return fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(time));
  };
  if (end < now) {
    return file_error(file, absl::StrCat("the certificate expired at ", utc(end), "; renew it"));
  }
  if (begin > now) {
    return file_error(file, absl::StrCat("the certificate is not valid before ", utc(begin),
                                         "; check it and this machine's clock"));
  }
  return absl::OkStatus();
}

absl::Status check_pair(const TlsFile& certificate, const TlsFile& key, const TlsTexts& texts) {
  ASSIGN_OR_RETURN(const Credentials credentials, new_credentials());
  const gnutls_datum_t chain = datum_of(texts.certificate), secret = datum_of(texts.key);
  const int error =
      gnutls_certificate_set_x509_key_mem(credentials.get(), &chain, &secret, GNUTLS_X509_FMT_PEM);
  if (error == GNUTLS_E_CERTIFICATE_KEY_MISMATCH) {
    return file_error(key, absl::StrCat("is not the key of ", certificate.path,
                                        "; give the key that this certificate was made with"));
  }
  if (error < 0) {
    return file_error(certificate,
                      absl::StrCat("cannot be used with ", key.path, ": ", gnutls_strerror(error),
                                   "; check certificate and key"));
  }
  return check_validity(certificate, credentials.get());
}

absl::Status check_authorities(const TlsFile& file, const std::string& text) {
  ASSIGN_OR_RETURN(const Credentials credentials, new_credentials());
  const gnutls_datum_t data = datum_of(text);
  if (gnutls_certificate_set_x509_trust_mem(credentials.get(), &data, GNUTLS_X509_FMT_PEM) > 0) {
    return absl::OkStatus();
  }
  return file_error(file, "there is no certificate of an authority in it (PEM)");
}

}  // namespace

absl::StatusOr<TlsTexts> read_tls_files(const TlsFile& certificate, const TlsFile& key,
                                        const TlsFile& client_authorities) {
  TlsTexts texts;
  ASSIGN_OR_RETURN(texts.certificate, read_pem(certificate.path, name_of(certificate)));
  ASSIGN_OR_RETURN(texts.key, read_pem(key.path, name_of(key)));
  RETURN_IF_ERROR(check_pair(certificate, key, texts));
  if (client_authorities.path.empty()) return texts;
  ASSIGN_OR_RETURN(texts.client_authorities,
                   read_pem(client_authorities.path, name_of(client_authorities)));
  RETURN_IF_ERROR(check_authorities(client_authorities, texts.client_authorities));
  return texts;
}

}  // namespace memprofd
