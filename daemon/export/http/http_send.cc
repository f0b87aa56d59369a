// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/http/http_send.h"

#include <microhttpd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/util/guard.h"
#include "daemon/util/gzip.h"

namespace memprofd {
namespace {

constexpr std::size_t kCompressFrom = 1024;      // bytes; below, gzip costs more than it saves
constexpr std::size_t kPieceBuffer = 64 * 1024;  // of libmicrohttpd, for each connection

// Allows what the page needs, and no frame around it; the page itself allows even less.
constexpr char kContentPolicy[] =
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

bool accepts_gzip(const char* accept_encoding) {
  if (accept_encoding == nullptr) return false;
  for (absl::string_view item : absl::StrSplit(accept_encoding, ',')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(item, absl::MaxSplits(';', 1));
    if (absl::StripAsciiWhitespace(parts.first) != "gzip") continue;
    const absl::string_view quality = absl::StripAsciiWhitespace(parts.second);
    return quality != "q=0" && !absl::StartsWith(quality, "q=0.0");
  }
  return false;
}

// Suspends the connection's timeout while it exists, because memprofd, not the client, causes the
// delay.
class ClientWaits {
 public:
  explicit ClientWaits(MHD_Connection* connection)
      : connection_(connection),
        limit_(MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_TIMEOUT)
                   ->connection_timeout) {
    MHD_set_connection_option(connection_, MHD_CONNECTION_OPTION_TIMEOUT, 0u);
  }
  ~ClientWaits() { MHD_set_connection_option(connection_, MHD_CONNECTION_OPTION_TIMEOUT, limit_); }
  ClientWaits(const ClientWaits&) = delete;
  ClientWaits& operator=(const ClientWaits&) = delete;

 private:
  MHD_Connection* connection_;
  const unsigned limit_;  // seconds
};

// A body that is generated while it is sent. Owned by the library's response.
struct Pieces {
  MHD_Connection* connection;
  std::function<std::optional<std::string>()> next;
  std::string piece = {};
  std::size_t sent = 0;  // of piece

  static ssize_t read(void* self, std::uint64_t /*position*/, char* buffer, std::size_t size) {
    Pieces& pieces = *static_cast<Pieces*>(self);
    if (pieces.sent == pieces.piece.size()) {
      const ClientWaits waits(pieces.connection);
      std::optional<std::string> next;
      guarded("to make a piece of an answer over HTTP", [&] { next = pieces.next(); });
      if (!next) return MHD_CONTENT_READER_END_WITH_ERROR;
      pieces.piece = *std::move(next);
      pieces.sent = 0;
    }
    if (pieces.piece.empty()) return MHD_CONTENT_READER_END_OF_STREAM;
    const std::size_t n = pieces.piece.copy(buffer, size, pieces.sent);
    pieces.sent += n;
    return static_cast<ssize_t>(n);
  }
  static void free(void* self) { delete static_cast<Pieces*>(self); }
};

MHD_Response* in_pieces(MHD_Connection* connection,
                        std::function<std::optional<std::string>()> next) {
  auto pieces = std::make_unique<Pieces>(Pieces{connection, std::move(next)});
  MHD_Response* message = MHD_create_response_from_callback(
      MHD_SIZE_UNKNOWN, kPieceBuffer, &Pieces::read, pieces.get(), &Pieces::free);
  if (message != nullptr) (void)pieces.release();  // the response frees it
  return message;
}

MHD_Response* whole(MHD_Connection* connection, const std::string& body) {
  std::string compressed;
  if (body.size() >= kCompressFrom && accepts_gzip(request_header(connection, "Accept-Encoding"))) {
    compressed = gzip_compress(body);
  }
  const std::string& sent = compressed.empty() ? body : compressed;
  MHD_Response* message = MHD_create_response_from_buffer(
      sent.size(), const_cast<char*>(sent.data()), MHD_RESPMEM_MUST_COPY);
  if (message != nullptr && !compressed.empty()) {
    MHD_add_response_header(message, "Content-Encoding", "gzip");
  }
  return message;
}

}  // namespace

const char* request_header(MHD_Connection* connection, const char* name) {
  return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

bool send_response(MHD_Connection* connection, HttpResponse response) {
  MHD_Response* message = response.pieces ? in_pieces(connection, std::move(response.pieces))
                                          : whole(connection, response.body);
  if (message == nullptr) return false;
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) MHD_add_response_header(message, name, value.c_str());
  };
  add("Content-Type", response.content_type);
  if (!response.file_name.empty()) {
    add("Content-Disposition", absl::StrCat("attachment; filename=\"", response.file_name, "\""));
  }
  add("Vary", "Accept-Encoding");
  add("X-Content-Type-Options", "nosniff");
  add("X-Frame-Options", "DENY");
  add("Content-Security-Policy", kContentPolicy);
  add("Cache-Control", "no-store");
  if (response.status == MHD_HTTP_UNAUTHORIZED) {
    add("WWW-Authenticate", "Basic realm=\"memprofd\"");
  }
  add("Allow", response.allow);
  for (const auto& [name, value] : response.fields) add(name.c_str(), value);
  const MHD_Result queued =
      MHD_queue_response(connection, static_cast<unsigned>(response.status), message);
  MHD_destroy_response(message);
  return queued == MHD_YES;
}

}  // namespace memprofd
