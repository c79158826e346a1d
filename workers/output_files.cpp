#include "workers/output_files.h"

#include <algorithm>
#include <fstream>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "proto/messages/failure.h"
#include "proto/support/sha256.h"
#include "proto/support/status_macros.h"
#include "workers/file_digest.h"
#include "workers/output_names.h"

namespace tessera::worker {
namespace {

constexpr int kMaxFiles = 100'000;

bool acceptableName(const std::string& name) {
  return !name.empty() && name.size() <= 128 && name.front() != '.' &&
         std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-'; });
}

absl::Status badResult(const std::string& what) {
  return failureStatus(v1::Failure::INTERNAL, absl::StrCat("the task left a result that cannot be used: ", what));
}

// An output that is composed of files and inputs.
absl::StatusOr<BlobClient::File> composedFile(const v1::OutputFile& file, const v1::TaskSpec& task,
                                              const AttemptFolder& folder) {
  BlobClient::File whole;
  std::vector<std::string> paths;
  for (const v1::OutputFile::Part& part : file.parts()) {
    BlobClient::File::Part& made = whole.parts.emplace_back();
    if (part.has_file()) {
      if (!acceptableName(part.file())) return badResult(absl::StrCat("a part named '", part.file(), "'"));
      made.path = folder.output(part.file());
    } else {
      const auto input = std::find_if(task.inputs().begin(), task.inputs().end(),
                                      [&](const v1::Digest& digest) { return digest.sha256() == part.input(); });
      if (input == task.inputs().end()) return badResult("a part that is not one of its inputs");
      made.path = folder.input(part.input());
      made.digest = *input;
      made.is_there = true;
    }
    paths.push_back(made.path);
  }
  std::vector<int64_t> sizes;
  auto digest = digestFiles(paths, &sizes);
  if (!digest.ok()) return badResult(std::string(digest.status().message()));
  for (size_t i = 0; i < sizes.size(); ++i) whole.parts[i].digest.set_size_bytes(sizes[i]);
  whole.digest = *digest;
  return whole;
}

// Digest of a file that the task inlined.
v1::Digest digestOf(const std::string& data) {
  v1::Digest digest;
  digest.set_sha256(sha256Hex(data));
  digest.set_size_bytes(static_cast<int64_t>(data.size()));
  return digest;
}

// Sets the digests in the result and returns the files. Inlined files have no path.
absl::StatusOr<std::vector<BlobClient::File>> hashFiles(v1::TaskResult& result, const v1::TaskSpec& task,
                                                        const AttemptFolder& folder) {
  if (result.files_size() > kMaxFiles) return badResult(absl::StrCat(result.files_size(), " files"));
  std::vector<BlobClient::File> files;
  int64_t enclosed = 0;
  for (v1::OutputFile& file : *result.mutable_files()) {
    if (!acceptableName(file.name())) return badResult(absl::StrCat("a file named '", file.name(), "'"));
    if (!file.data().empty()) {
      const auto size = static_cast<int64_t>(file.data().size());
      enclosed += size;
      if (size > kMaxEnclosedBytes || enclosed > kEnclosedBytesOfResult || file.parts_size() > 0) {
        return badResult(absl::StrCat("the file '", file.name(), "' is inlined with ", size, " bytes, ", enclosed,
                                      " in total; accepted: ", kMaxEnclosedBytes, ", ", kEnclosedBytesOfResult,
                                      " in total"));
      }
      *file.mutable_digest() = digestOf(file.data());
      files.push_back({file.digest(), ""});
      continue;
    }
    if (file.parts_size() > 0) {
      TESSERA_ASSIGN_OR_RETURN(auto whole, composedFile(file, task, folder));
      *file.mutable_digest() = whole.digest;
      file.clear_parts();
      files.push_back(std::move(whole));
      continue;
    }
    const std::string path = folder.output(file.name());
    auto digest = digestFile(path);
    if (!digest.ok()) return badResult(std::string(digest.status().message()));
    *file.mutable_digest() = *digest;
    files.push_back({*digest, path});
  }
  return files;
}

// Inlines small files, and returns the others, which must be uploaded before the report.
absl::StatusOr<std::vector<BlobClient::File>> enclose(v1::TaskResult& result,
                                                      const std::vector<BlobClient::File>& files) {
  std::vector<BlobClient::File> large;
  int64_t room = kEnclosedBytesOfResult;
  for (const v1::OutputFile& file : result.files()) room -= static_cast<int64_t>(file.data().size());
  for (int i = 0; i < result.files_size(); ++i) {
    const BlobClient::File& file = files[static_cast<size_t>(i)];
    const int64_t size = file.digest.size_bytes();
    if (!result.files(i).data().empty()) continue;
    // Empty data would mean "not inlined"
    if (!file.parts.empty() || size == 0 || size > std::min(room, kMaxEnclosedBytes)) {
      large.push_back(file);
      continue;
    }
    std::ifstream in(file.path, std::ios::binary);
    std::string& data = *result.mutable_files(i)->mutable_data();
    data.resize(static_cast<size_t>(size) + 1);  // the extra byte detects a file that has grown
    in.read(data.data(), size + 1);
    data.resize(static_cast<size_t>(in.gcount()));
    if (static_cast<int64_t>(data.size()) != size) return absl::InternalError("an output changed while it was read");
    room -= size;
  }
  return large;
}

// Large outputs of an execute task are named by their position.
absl::Status referToFiles(v1::TaskResult& result) {
  if (!result.has_execute()) return absl::OkStatus();
  std::map<std::string, const v1::Digest*> by_name;
  for (const v1::OutputFile& file : result.files()) by_name[file.name()] = &file.digest();
  for (int i = 0; i < result.execute().outputs_size(); ++i) {
    v1::TensorValue& output = *result.mutable_execute()->mutable_outputs(i);
    if (output.value_case() != v1::TensorValue::VALUE_NOT_SET) continue;
    const auto file = by_name.find(outputFileName(i));
    if (file == by_name.end()) return badResult(absl::StrCat("output '", output.spec().name(), "' has no value"));
    *output.mutable_blob() = *file->second;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status storeOutputs(v1::TaskResult& result, const v1::TaskSpec& task, const AttemptFolder& folder,
                          BlobClient& client, BlobCache& cache, Cancellation& attempt) {
  if (result.has_failure()) return absl::OkStatus();
  auto files = hashFiles(result, task, folder);
  const absl::Status usable = files.ok() ? referToFiles(result) : files.status();
  if (!usable.ok()) {
    v1::TaskResult unusable;
    *unusable.mutable_failure() = failureOf(usable);
    *unusable.mutable_usage() = result.usage();
    result = unusable;
    return absl::OkStatus();
  }
  if (files->empty()) return absl::OkStatus();
  TESSERA_ASSIGN_OR_RETURN(auto large, enclose(result, *files));
  TESSERA_RETURN_IF_ERROR(client.upload(large, attempt));
  for (const auto& file : *files) {
    if (file.parts.empty() && !file.path.empty()) cache.add(file.digest, file.path);
  }
  return absl::OkStatus();
}

}  // namespace tessera::worker
