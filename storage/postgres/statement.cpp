#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/support/status_macros.h"
#include "storage/postgres/database.h"

namespace tessera::storage {
namespace {

/// Rows of the second part of a streamed statement; further parts are larger, up to about kPartBytes.
constexpr int kFirstFetch = 64;
constexpr int kLargestFetch = 256;
constexpr int64_t kPartBytes = 2 << 20;

int64_t bytesOf(const PGresult* result) {
  int64_t bytes = 0;
  for (int row = 0; row < PQntuples(result); ++row) {
    for (int column = 0; column < PQnfields(result); ++column) bytes += PQgetlength(result, row, column);
  }
  return bytes;
}

// Object identifiers of PostgreSQL's built-in types (catalog/pg_type.dat), which never change.
constexpr Oid kBool = 16, kInt8 = 20, kInt2 = 21, kInt4 = 23, kFloat8 = 701;

/// A number in network byte order.
uint64_t bigEndian(const char* bytes, int size) {
  uint64_t number = 0;
  for (int i = 0; i < size; ++i) number = number << 8 | static_cast<unsigned char>(bytes[i]);
  return number;
}

}  // namespace

PostgresParameters::Arrays PostgresParameters::arrays() const {
  Arrays arrays;
  for (const Parameter& parameter : values_) {
    arrays.values.push_back(parameter.null ? nullptr : parameter.value.c_str());
    arrays.lengths.push_back(static_cast<int>(parameter.value.size()));
    arrays.formats.push_back(parameter.binary ? 1 : 0);
  }
  return arrays;
}

// Numbers are sent as text, because the server infers the type of a parameter from its column; the binary form of a
// text is the text.
void PostgresStatement::bindInteger(int64_t value) { parameters_.add(absl::StrCat(value), false); }
void PostgresStatement::bindReal(double value) { parameters_.add(absl::StrFormat("%.17g", value), false); }
void PostgresStatement::bindText(std::string_view text) {
  if (text.find('\0') != std::string_view::npos && status_.ok()) {
    status_ = absl::InvalidArgumentError("a text contains a zero byte, which the database cannot store; remove it");
  }
  const std::vector<int>& globs = this->text().globs;
  const bool is_glob = std::find(globs.begin(), globs.end(), parameters_.size()) != globs.end();
  parameters_.add(is_glob ? likeOfGlob(text) : std::string(text), true);
}
void PostgresStatement::bindBlob(std::string_view bytes) { parameters_.add(std::string(bytes), true); }

void PostgresStatement::start() {
  if (!status_.ok() || reply_ != nullptr) return;
  if (status_ = database_.fault(); !status_.ok()) return;
  if (text().streamed && cached_ == nullptr) {
    status_ = fetch();
  } else {
    part_ = PostgresDatabase::kHeadRows;
    reply_ =
        cached_ != nullptr ? database_.sendPrepared(*cached_, parameters_) : database_.send(text().sql, parameters_);
  }
}

/// Requests the next part of a streamed statement's rows.
absl::Status PostgresStatement::fetch() {
  if (!database_.fault().ok()) return database_.fault();
  if (cursor_.empty()) {
    cursor_ = database_.nextCursor();
    part_ = kFirstFetch;
    (void)database_.send(absl::StrCat("DECLARE ", cursor_, " NO SCROLL CURSOR FOR ", text().sql, " OFFSET ", fetched_),
                         parameters_);
  } else {
    const int64_t row_bytes = bytesOf(reply_->result) / std::max(1, PQntuples(reply_->result));
    part_ = static_cast<int>(std::clamp<int64_t>(kPartBytes / std::max<int64_t>(1, row_bytes), 1, kLargestFetch));
  }
  reply_ = database_.send(absl::StrCat("FETCH ", part_, " FROM ", cursor_), {});
  row_ = -1;
  return absl::OkStatus();
}

absl::StatusOr<bool> PostgresStatement::step() {
  if (!text().reads) {
    TESSERA_RETURN_IF_ERROR(run());
    return false;
  }
  start();
  if (!status_.ok()) return status_;
  while (true) {
    if (status_ = database_.await(reply_); !status_.ok()) {
      if (!database_.fault().ok()) status_ = database_.fault();
      return status_;
    }
    const int rows = PQntuples(reply_->result);
    if (++row_ < rows) return true;
    if (!text().streamed || rows < part_) return false;
    fetched_ += rows;
    TESSERA_RETURN_IF_ERROR(fetch());
  }
}

absl::Status PostgresStatement::run() {
  if (text().reads) return step().status();
  if (!status_.ok()) return status_;
  if (!database_.fault().ok()) return database_.fault();
  return status_ = text().writes ? write() : (start(), status_);
}

absl::Status PostgresStatement::write() {
  TESSERA_RETURN_IF_ERROR(database_.savepoints().beforeWrite());
  database_.wrote_ = true;
  const bool guarded = database_.careful_ || text().may_violate;
  if (guarded) (void)database_.send("SAVEPOINT guard", {});
  start();
  TESSERA_RETURN_IF_ERROR(status_);
  database_.last_write_ = reply_;
  if (!guarded) return absl::OkStatus();
  reply_->guarded = true;
  (void)database_.send("RELEASE guard", {});
  absl::Status status = database_.await(reply_);
  if (status.ok()) return status;
  if (!database_.fault().ok()) return database_.fault();
  // The server skipped RELEASE, and the transaction continues before the statement.
  database_.synchronize();
  (void)database_.send("ROLLBACK TO guard", {});
  (void)database_.send("RELEASE guard", {});
  if (!database_.careful_) database_.doubtful_ = true;
  return status;
}

int64_t PostgresStatement::integer(int column) const {
  if (reply_ == nullptr || row_ < 0 || row_ >= PQntuples(reply_->result) || isNull(column)) return 0;
  const char* const bytes = PQgetvalue(reply_->result, row_, column);
  switch (PQftype(reply_->result, column)) {
    case kBool:
      return bytes[0];
    case kInt2:
      return static_cast<int16_t>(bigEndian(bytes, 2));
    case kInt4:
      return static_cast<int32_t>(bigEndian(bytes, 4));
    case kInt8:
      return static_cast<int64_t>(bigEndian(bytes, 8));
    case kFloat8:
      return static_cast<int64_t>(real(column));
    default:
      return 0;
  }
}

double PostgresStatement::real(int column) const {
  if (isNull(column)) return 0;
  if (PQftype(reply_->result, column) != kFloat8) return static_cast<double>(integer(column));
  return std::bit_cast<double>(bigEndian(PQgetvalue(reply_->result, row_, column), 8));
}

std::string_view PostgresStatement::bytes(int column) const {
  return {PQgetvalue(reply_->result, row_, column), static_cast<size_t>(PQgetlength(reply_->result, row_, column))};
}

Value PostgresStatement::value(int column) const {
  switch (PQftype(reply_->result, column)) {
    case kBool:
    case kInt2:
    case kInt4:
    case kInt8:
      return integer(column);
    case kFloat8:
      return real(column);
    default:
      return std::string(bytes(column));
  }
}

void PostgresStatement::release() { delete this; }

}  // namespace tessera::storage
