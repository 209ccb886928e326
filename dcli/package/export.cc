#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "dcli/package/package.h"
#include "dcli/package/tool.h"
#include "fsm/package/ustar.h"

namespace dfsmr::cli {
namespace {

// Writes items as a tar: a file is written when all of it is there, because its size is in front.
class TarWriter {
 public:
  explicit TarWriter(std::ostream& out) : out_(out) {}

  bool Take(const v1::ExportItem& item) {
    if (item.end()) {
      WriteFile();
      out_ << std::string(kTarEnd, '\0') << std::flush;
      return out_.good();
    }
    if (item.path() != path_) {
      WriteFile();
      path_ = item.path();
    }
    text_ += item.data();
    return out_.good();
  }

 private:
  void WriteFile() {
    if (path_.empty()) return;
    out_ << FileHeader(path_, text_.size()) << text_
         << std::string(UstarPadding(text_.size()), '\0');
    text_.clear();
    path_.clear();
  }

  std::ostream& out_;
  std::string path_;
  std::string text_;
};

}  // namespace

int Export(Context& context, const ExportOptions& options) {
  const std::string& name = options.name.empty() ? context.name_space : options.name;
  if (options.out.empty() && isatty(STDOUT_FILENO) == 1) {
    return context.Fail(kBadUsage,
                        "an export is a tar, which a terminal cannot show: say where to, "
                        "with --out FILE or > FILE");
  }
  v1::ExportNamespaceRequest request;
  request.set_name(name);
  request.set_instances(options.instances);
  request.set_all_package_versions(options.all_versions);
  const Target target = TargetOf(options.out);
  const std::string part = target.replaced ? target.path + ".part" : target.path;
  std::ofstream file;
  if (!options.out.empty()) file.open(part, std::ios::binary | std::ios::trunc);
  std::ostream& out = options.out.empty() ? context.out : file;
  TarWriter tar(out);
  const auto exported = context.client->namespaces().ExportNamespace(
      request, [&](const v1::ExportItem& item) { return tar.Take(item); });
  const bool written = out.good();
  if (file.is_open()) file.close();
  if (exported && written && options.out.empty()) return kSucceeded;
  const auto moved = [&] {
    return !target.replaced || rename(part.c_str(), target.path.c_str()) == 0;
  };
  if (exported && written && moved()) return kSucceeded;
  const std::string why = std::strerror(errno);
  if (!options.out.empty() && target.replaced) unlink(part.c_str());
  if (!exported) return context.Fail(exported.error());
  return context.Fail(kRefused, "the export could not be written: " + why);
}

}  // namespace dfsmr::cli
