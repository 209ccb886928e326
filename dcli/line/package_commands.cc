#include "dcli/line/command_line.h"
#include "dcli/package/package.h"

namespace dfsmr::cli {

void CommandLine::AddPackageCommand() {
  auto package = std::make_shared<PackageOptions>();
  Command("package",
          "new NAME | check FOLDER|FILE... | build FOLDER | diff A B | sign FILE | verify FILE",
          "Make packages: documents with the programs that do their work, as one file", Package,
          package)
      .Argument("ACTION", Word::kPackageAction, &package->action)
      .Arguments("PLACE", Word::kFile, &package->places, false)
      .Flag("--plan", &package->plan, "new: with a plan in place of a machine")
      .Flag("--out", "FILE", &package->out, "build: where to (default NAME-VERSION.dfsmr)")
      .Flag("--version", "V", &package->version, "build: this version, in place of the manifest's")
      .Flag("--key", "FILE", &package->key, "sign: with this key (default ~/.ssh/id_ed25519)")
      .Flag("--allowed-signers", "FILE", &package->allowed_signers,
            "verify: whose signatures count, as for ssh-keygen -Y verify")
      .Example("package new etl --plan")
      .Example("package check etl")
      .Example("package build etl --version 1.4.0")
      .Example("package diff etl-1.3.0.dfsmr etl")
      .Example("package sign etl-1.4.0.dfsmr --key ~/.ssh/id_ed25519")
      .Example("package verify etl-1.4.0.dfsmr --allowed-signers allowed_signers");
}

}  // namespace dfsmr::cli
