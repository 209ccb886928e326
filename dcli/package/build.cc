#include <google/protobuf/struct.pb.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "dcli/package/package.h"
#include "dcli/package/subject.h"
#include "dcli/package/tool.h"
#include "dcli/text/text.h"
#include "fsm/package/version.h"
#include "storage/archive/files.h"
#include "storage/signatures/signatures.h"

namespace dfsmr::cli {
namespace {

struct Built {
  std::string file;
  size_t files = 0;
  uint64_t bytes = 0;
  std::string digest;
};

Error CannotWrite(const std::string& path) {
  return {Code::kUnavailable, Reason::kNone, "cannot write " + path + ": " + std::strerror(errno)};
}

// Writes the archive beside its place, then moves it there; what cannot be replaced, such as a
// device, is written as it is.
Result<Built> Write(const Subject& subject, const Manifest& manifest, const std::string& text,
                    const std::string& path) {
  Built built{.file = path, .files = subject.files.size(), .bytes = 0, .digest = ""};
  const Target target = TargetOf(path);
  ArchiveHasher hasher;
  std::ofstream file(target.Beside(), std::ios::binary | std::ios::trunc);
  auto written = WriteArchive(subject.name, subject.files, manifest.Top(), text,
                              [&](std::string_view bytes) -> Result<Ok> {
                                hasher.Add(bytes);
                                built.bytes += bytes.size();
                                file << bytes;
                                return file ? Result<Ok>(Ok{}) : CannotWrite(path);
                              });
  file.close();
  const auto moved = [&target] {
    return !target.replaced || std::rename(target.Beside().c_str(), target.path.c_str()) == 0;
  };
  if (written && (!file || !moved())) written = CannotWrite(path);
  if (!written) {
    if (target.replaced) std::remove(target.Beside().c_str());
    return written.error();
  }
  built.digest = hasher.Take().Digest();
  return built;
}

void Print(Context& context, const Manifest& manifest, const Built& built) {
  google::protobuf::Struct reply;
  auto& fields = *reply.mutable_fields();
  fields["package"].set_string_value(manifest.package);
  fields["version"].set_string_value(manifest.version);
  fields["file"].set_string_value(built.file);
  fields["files"].set_number_value(static_cast<double>(built.files));
  fields["bytes"].set_number_value(static_cast<double>(built.bytes));
  fields["digest"].set_string_value(built.digest);
  if (context.Print(reply)) return;
  if (context.names()) {
    context.out << manifest.FullName() << '\n';
    return;
  }
  Description description;
  description.Add("file", built.file);
  description.Add("files", std::to_string(built.files));
  description.Add("bytes", std::to_string(built.bytes));
  description.Add("digest", built.digest);
  description.Print(context.out, context.look);
}

std::string PathOf(const PackageOptions& options, const Manifest& manifest) {
  const std::string name = manifest.Top() + ".dfsmr";
  if (options.out.empty()) return name;
  std::error_code ignored;
  if (!std::filesystem::is_directory(options.out, ignored)) return options.out;
  return (std::filesystem::path(options.out) / name).string();
}

}  // namespace

int BuildFolder(Context& context, const std::string& folder, const std::string& path) {
  auto subject = OpenSubject(folder);
  if (!subject) return FailToOpen(context, folder, subject.error());
  const auto package = CheckSubject(*subject);
  if (!package) return FailToOpen(context, folder, package.error());
  if (!package->ok()) {
    return context.Fail(kRefused, "the package has errors: nothing was sent",
                        "each line says where, and what would be right",
                        LinesOf(package->diagnostics));
  }
  context.err << LinesOf(package->diagnostics);
  const auto built = Write(*subject, *package->manifest, subject->manifest, path);
  return built ? kSucceeded : FailToOpen(context, folder, built.error());
}

int BuildPackage(Context& context, const PackageOptions& options) {
  const std::string& place = options.places[0];
  auto subject = OpenSubject(place);
  if (!subject) return FailToOpen(context, place, subject.error());
  if (!subject->folder) return context.Fail(kBadUsage, place + " is a file; build takes a folder");
  if (!options.version.empty()) {
    auto text = WithVersion(subject->manifest, options.version);
    if (!text) return context.Fail(kBadUsage, text.error().message);
    subject->manifest = *std::move(text);
    subject->files[std::string(kManifestName)].size = subject->manifest.size();
  }
  const auto package = CheckSubject(*subject);
  if (!package) return FailToOpen(context, place, package.error());
  if (!package->ok()) {
    return context.Fail(kRefused, "the package has errors: nothing was built",
                        "each line says where, and what would be right",
                        LinesOf(package->diagnostics));
  }
  context.err << LinesOf(package->diagnostics);
  const auto built =
      Write(*subject, *package->manifest, subject->manifest, PathOf(options, *package->manifest));
  if (!built) return FailToOpen(context, place, built.error());
  Print(context, *package->manifest, *built);
  return kSucceeded;
}

}  // namespace dfsmr::cli
