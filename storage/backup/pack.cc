#include "storage/backup/pack.h"

#include <zstd.h>

#include <string>
#include <system_error>
#include <vector>

#include "storage/backup/sha256.h"
#include "storage/backup/tar.h"

namespace dfsmr {
namespace {

namespace fs = std::filesystem;

constexpr int kLevel = 1;  // tables are compressed already: more effort would gain little
constexpr size_t kTarEndBytes = 2 * kTarBlockBytes;

class Compressor {
 public:
  explicit Compressor(const TakeBytes& give)
      : give_(give), context_(ZSTD_createCCtx()), out_(256 << 10, '\0') {
    Check(context_ != nullptr, "zstd has memory");
    ZSTD_CCtx_setParameter(context_, ZSTD_c_compressionLevel, kLevel);
    ZSTD_CCtx_setParameter(context_, ZSTD_c_checksumFlag, 1);
  }
  ~Compressor() { ZSTD_freeCCtx(context_); }
  Compressor(const Compressor&) = delete;
  Compressor& operator=(const Compressor&) = delete;

  Result<Ok> Add(std::string_view bytes) { return Run(bytes, ZSTD_e_continue); }
  Result<Ok> Finish() { return Run({}, ZSTD_e_end); }

 private:
  Result<Ok> Run(std::string_view bytes, ZSTD_EndDirective how) {
    ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
    while (true) {
      ZSTD_outBuffer out{out_.data(), out_.size(), 0};
      const size_t left = ZSTD_compressStream2(context_, &out, &in, how);
      if (ZSTD_isError(left) != 0) {
        return Error{Code::kInternal, Reason::kNone,
                     std::string("zstd cannot compress: ") + ZSTD_getErrorName(left)};
      }
      if (out.pos > 0) {
        if (auto given = give_({out_.data(), out.pos}); !given) return given;
      }
      if (how == ZSTD_e_end ? left == 0 : in.pos == in.size) return Ok{};
    }
  }

  const TakeBytes& give_;
  ZSTD_CCtx* const context_;
  std::string out_;
};

Result<uint64_t> SizeOf(const fs::path& path) {
  std::error_code failure;
  const uintmax_t size = fs::file_size(path, failure);
  if (!failure) return uint64_t{size};
  return Error{Code::kUnavailable, Reason::kNone,
               "cannot read " + path.string() + ": " + failure.message()};
}

Result<BackupFile> AddFile(const fs::path& folder, const std::string& name,
                           const PackOptions& options, Compressor* stream) {
  auto size = SizeOf(folder / name);
  if (!size) return size.error();
  auto done = stream->Add(TarHeader(name, *size));
  Sha256 digest;
  uint64_t all = 0;
  if (done) {
    done = ReadPieces(folder / name, [&](std::string_view bytes) -> Result<Ok> {
      digest.Add(bytes);
      all += bytes.size();
      if (auto added = stream->Add(bytes); !added) return added;
      return options.pace ? options.pace(bytes.size()) : Ok{};
    });
  }
  if (done && all != *size) {
    done = Error{Code::kUnavailable, Reason::kNone,
                 (folder / name).string() + " changed while it was read"};
  }
  if (done) done = stream->Add(std::string(TarPadding(*size), '\0'));
  if (!done) return done.error();
  return BackupFile{name, *size, digest.Take()};
}

}  // namespace

Result<Ok> PackBackup(const fs::path& folder, BackupManifest manifest, const PackOptions& options) {
  auto names = FilesBelow(folder);
  if (!names) return names.error();
  Compressor stream(options.give);
  for (const std::string& name : *names) {
    auto file = AddFile(folder, name, options, &stream);
    if (!file) return file.error();
    manifest.files.push_back(*std::move(file));
  }
  const std::string text = ToJson(manifest);
  auto done = stream.Add(TarHeader(kBackupManifest, text.size()));
  if (done) done = stream.Add(text);
  if (done) done = stream.Add(std::string(TarPadding(text.size()) + kTarEndBytes, '\0'));
  return done ? stream.Finish() : done;
}

Result<uint64_t> BytesBelow(const fs::path& folder) {
  auto names = FilesBelow(folder);
  if (!names) return names.error();
  uint64_t all = 0;
  for (const std::string& name : *names) {
    auto size = SizeOf(folder / name);
    if (!size) return size.error();
    all += *size;
  }
  return all;
}

}  // namespace dfsmr
