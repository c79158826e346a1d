#include "clients/cli/npy.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <numeric>
#include <regex>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "clients/cli/zip_file.h"
#include "clients/cpp/local_file.h"
#include "proto/support/status_macros.h"

namespace tessera::client {
namespace {

struct DtypeRow {
  v1::DataType dtype;
  const char* name;   // NumPy's name
  const char* descr;  // as in the header, without byte order
  int64_t bytes;
};

constexpr DtypeRow kDtypes[] = {
    {v1::DATA_TYPE_F32, "float32", "f4", 4}, {v1::DATA_TYPE_F64, "float64", "f8", 8},
    {v1::DATA_TYPE_F16, "float16", "f2", 2}, {v1::DATA_TYPE_BF16, "bfloat16", "u2", 2},
    {v1::DATA_TYPE_I8, "int8", "i1", 1},     {v1::DATA_TYPE_I16, "int16", "i2", 2},
    {v1::DATA_TYPE_I32, "int32", "i4", 4},   {v1::DATA_TYPE_I64, "int64", "i8", 8},
    {v1::DATA_TYPE_U8, "uint8", "u1", 1},    {v1::DATA_TYPE_U16, "uint16", "u2", 2},
    {v1::DATA_TYPE_U32, "uint32", "u4", 4},  {v1::DATA_TYPE_U64, "uint64", "u8", 8},
    {v1::DATA_TYPE_BOOL, "bool", "b1", 1},
};

const DtypeRow* rowOf(v1::DataType dtype) {
  for (const DtypeRow& row : kDtypes) {
    if (row.dtype == dtype) return &row;
  }
  return nullptr;
}

v1::DataType dtypeOfDescr(std::string_view descr) {
  if (descr == "u2") return v1::DATA_TYPE_U16;  // not bf16, which has the same spelling
  for (const DtypeRow& row : kDtypes) {
    if (descr == row.descr) return row.dtype;
  }
  return v1::DATA_TYPE_UNSPECIFIED;
}

absl::Status broken(const std::string& where, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(where, ": ", what));
}

// Returns the number of bytes of a shape's elements, or -1 on overflow. As in NumPy, the product of the nonzero extents
// must fit even if an extent is zero, so that no partial product overflows.
int64_t bytesOf(const v1::TensorSpec& spec, int64_t element) {
  int64_t bytes = element;
  bool empty = false;
  for (const int64_t extent : spec.shape()) {
    empty |= extent == 0;
    if (extent < 0 || (extent > 0 && __builtin_mul_overflow(bytes, extent, &bytes))) return -1;
  }
  return empty ? 0 : bytes;
}

std::string toRowMajor(const v1::TensorSpec& spec, std::string_view bytes, int64_t element) {
  const int rank = spec.shape_size();
  std::vector<int64_t> stride(rank, 1), index(rank, 0);
  for (int d = 1; d < rank; ++d) stride[d] = stride[d - 1] * spec.shape(d - 1);
  std::string out(bytes.size(), '\0');
  // Visits the elements in row-major order; `index` counts like an odometer.
  for (size_t to = 0; to < bytes.size(); to += element) {
    const int64_t from = std::inner_product(index.begin(), index.end(), stride.begin(), int64_t{0});
    std::memcpy(out.data() + to, bytes.data() + from * element, element);
    for (int d = rank - 1; d >= 0 && ++index[d] == spec.shape(d); --d) index[d] = 0;
  }
  return out;
}

}  // namespace

std::string dtypeName(v1::DataType dtype) {
  const DtypeRow* row = rowOf(dtype);
  return row ? row->name : "unknown";
}

int64_t dtypeBytes(v1::DataType dtype) {
  const DtypeRow* row = rowOf(dtype);
  return row ? row->bytes : 0;
}

absl::StatusOr<Tensor> parseNpy(std::string_view bytes, const std::string& where) {
  constexpr std::string_view kMagic = "\x93NUMPY";
  if (!bytes.starts_with(kMagic) || bytes.size() < 12) return broken(where, "not an .npy file");
  const int major = static_cast<uint8_t>(bytes[6]);
  size_t header_size = 0, start = 0;
  if (major == 1) {
    header_size = static_cast<uint8_t>(bytes[8]) | static_cast<uint8_t>(bytes[9]) << 8;
    start = 10;
  } else if (major == 2 || major == 3) {
    // The length is little-endian, with 2 bytes in format 1 and 4 bytes from format 2 on.
    for (int i = 3; i >= 0; --i) header_size = header_size << 8 | static_cast<uint8_t>(bytes[8 + i]);
    start = 12;
  } else {
    return broken(where, absl::StrCat(".npy format ", major, " is unknown; 1 to 3 are read"));
  }
  // NumPy's limit; also, the regular expressions below use stack space for each byte.
  constexpr size_t kLongestHeader = 10'000;
  if (header_size > kLongestHeader) {
    return broken(where, absl::StrCat("a header of ", header_size, " bytes; accepted: up to ", kLongestHeader));
  }
  if (header_size > bytes.size() - start) return broken(where, "the file ends within its header");
  const std::string header(bytes.substr(start, header_size));

  static const std::regex kDescr(R"('descr'\s*:\s*'([<>|=])(\w+)')");
  static const std::regex kOrder(R"('fortran_order'\s*:\s*(True|False))");
  static const std::regex kShape(R"('shape'\s*:\s*\(([\d\s,]*)\))");
  std::smatch descr, order, shape;
  if (!std::regex_search(header, descr, kDescr) || !std::regex_search(header, order, kOrder) ||
      !std::regex_search(header, shape, kShape)) {
    return broken(where, absl::StrCat("cannot understand the header ", header));
  }
  Tensor tensor;
  tensor.spec.set_dtype(dtypeOfDescr(descr[2].str()));
  const int64_t element = dtypeBytes(tensor.spec.dtype());
  if (element == 0) return broken(where, absl::StrCat("element type ", descr[2].str(), " is not supported"));
  if (descr[1] == ">" && element > 1)
    return broken(where, "big-endian arrays are not supported; use arr.astype('<..')");
  for (const absl::string_view part : absl::StrSplit(shape[1].str(), ',', absl::SkipWhitespace())) {
    int64_t extent = 0;
    if (!absl::SimpleAtoi(absl::StripAsciiWhitespace(part), &extent)) return broken(where, "bad shape");
    tensor.spec.add_shape(extent);
  }
  const std::string_view data = bytes.substr(start + header_size);
  if (bytesOf(tensor.spec, element) != static_cast<int64_t>(data.size())) {
    return broken(where, absl::StrCat("the shape (", absl::StrJoin(tensor.spec.shape(), ","), ") of ", element,
                                      "-byte elements does not fit the ", data.size(), " bytes of data"));
  }
  tensor.bytes =
      order[1] == "True" && tensor.spec.shape_size() > 1 ? toRowMajor(tensor.spec, data, element) : std::string(data);
  return tensor;
}

absl::StatusOr<Tensor> readNpy(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return fileError(errno, absl::StrCat("cannot open ", path));
  std::ostringstream bytes;
  bytes << in.rdbuf();
  return parseNpy(std::move(bytes).str(), path);
}

absl::StatusOr<std::map<std::string, Tensor>> readNpz(const std::string& path, int64_t spare) {
  std::map<std::string, Tensor> tensors;
  absl::Status status = forEachZipEntry(
      path,
      [&](const std::string& name, const std::string& bytes) {
        TESSERA_ASSIGN_OR_RETURN(auto tensor, parseNpy(bytes, absl::StrCat(path, "[", name, "]")));
        tensor.spec.set_name(std::string(absl::StripSuffix(name, ".npy")));
        tensors[tensor.spec.name()] = std::move(tensor);
        return absl::OkStatus();
      },
      spare);
  if (!status.ok()) return status;
  return tensors;
}

absl::Status writeNpy(const std::string& path, const v1::TensorSpec& spec, std::string_view bytes) {
  const DtypeRow* row = rowOf(spec.dtype());
  if (!row) return absl::InvalidArgumentError(absl::StrCat(path, ": unknown element type"));
  std::string header =
      absl::StrCat("{'descr': '", row->bytes == 1 ? "|" : "<", row->descr, "', 'fortran_order': False, 'shape': (",
                   absl::StrJoin(spec.shape(), ", "), spec.shape_size() == 1 ? ",), }" : "), }");
  // Magic, version and length take 10 bytes; data starts at a multiple of 64.
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << std::string_view("\x93NUMPY\x01\x00", 8) << static_cast<char>(header.size() & 0xff)
      << static_cast<char>(header.size() >> 8) << header << bytes;
  out.close();
  if (!out) return fileError(errno, absl::StrCat("cannot write ", path));
  return absl::OkStatus();
}

}  // namespace tessera::client
