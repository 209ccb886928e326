#include "dcli/line/command_line.h"
#include "dcli/package/package.h"

namespace dfsmr::cli {

void CommandLine::AddPackageCommand() {
  auto package = std::make_shared<PackageOptions>();
  Command(
      "package",
      "new NAME | check FOLDER|FILE... | build FOLDER | dev FOLDER... | diff A B | sign FILE | "
      "verify FILE | "
      "push FOLDER|FILE... | activate P@V | rollback P | deactivate P | list [P] | show P[@V] | "
      "cat P[@V] PATH | pull P[@V] | remove P@V",
      "Make packages: documents with the programs that do their work, as one file; and have "
      "them on a server",
      Package, package)
      .Argument("ACTION", Word::kPackageAction, &package->action)
      .Arguments("PLACE", Word::kFile, &package->places, false)
      .Flag("--plan", &package->plan, "new: with a plan in place of a machine")
      .Flag("--out", "FILE", &package->out, "build, pull: where to (default NAME-VERSION.dfsmr)")
      .Flag("--version", "V", &package->version, "build: this version, in place of the manifest's")
      .Flag("--key", "FILE", &package->key, "sign: with this key (default ~/.ssh/id_ed25519)")
      .Flag("--allowed-signers", "FILE", &package->allowed_signers,
            "verify: whose signatures count, as for ssh-keygen -Y verify")
      .Flag("--sign-with", "KEY", &package->sign_with, "push: with a signature of this key")
      .Flag("--activate", &package->activate, "push: and activate it")
      .Flag("--percent", "N", &package->percent,
            "activate: as a candidate, for this share of the starts")
      .Flag("--if-active", "V", &package->if_active,
            "refuse unless this version is active (none: unless none is)")
      .Flag("--adopt", &package->adopt, "activate: take over what was defined by hand")
      .Flag("--force", &package->force, "retire what others still name")
      .Flag("--note", "TEXT", &package->note, "for the history of activations")
      .Flag("--dry-run", &package->dry_run, "say what would happen, change nothing")
      .Flag("--files", &package->files, "show: its files")
      .Flag("--history", &package->history, "show: what was active when")
      .Flag("--unpack", "DIR", &package->unpack,
            "pull: into this folder, which is made; the archive is kept only with --out")
      .Flag("--poll", &package->poll, "dev: look each second, in place of watches of the kernel")
      .Flag("--env-file", "FILE", &package->env_file,
            "dev: values of secrets, lines NAME=VALUE; the server is not asked for these")
      .Flag("--no-agent", &package->no_agent, "dev: without an agent, as for a folder of archives")
      .Flag("--keep", "N", &package->keep, "remove: all but the newest N that may go")
      .Example("package new etl --plan")
      .Example("package push etl-1.4.0.dfsmr --activate")
      .Example("package activate etl@1.5.0 --percent 5")
      .Example("package check etl")
      .Example("package build etl --version 1.4.0")
      .Example("package dev etl")
      .Example("package diff etl-1.3.0.dfsmr etl")
      .Example("package sign etl-1.4.0.dfsmr --key ~/.ssh/id_ed25519")
      .Example("package verify etl-1.4.0.dfsmr --allowed-signers allowed_signers");
}

void CommandLine::AddExportCommands() {
  auto out = std::make_shared<ExportOptions>();
  Command("export", "[NAMESPACE]",
          "Write what a namespace has, as files in a tar: settings, definitions, packages", Export,
          out)
      .Argument("NAMESPACE", Word::kAnything, &out->name, false)
      .Flag("--out", "FILE", &out->out, "where to (default: standard output)")
      .Flag("--instances", &out->instances,
            "with the instances that have not stopped; the namespace is frozen")
      .Flag("--all-versions", &out->all_versions,
            "with versions of packages that nothing uses, too")
      .Example("export acme > acme.tar")
      .Example("export acme --instances --out acme.tar");
  auto in = std::make_shared<ImportOptions>();
  Command("import", "FILE|FOLDER|-",
          "Bring what an export has written into its namespace, or that of --namespace", Import, in)
      .Argument("FILE", Word::kFile, &in->place)
      .Flag("--dry-run", &in->dry_run, "say what would happen, change nothing")
      .Example("import acme.tar --dry-run")
      .Example("import acme.tar --namespace other");
}

void CommandLine::AddTrustCommand() {
  auto trust = std::make_shared<TrustOptions>();
  Command("trust", "add NAME FILE|-|list|revoke NAME|FINGERPRINT",
          "The keys whose signatures of packages count in a namespace", Trust, trust)
      .Argument("ACTION", Word::kTrustAction, &trust->action)
      .Argument("NAME", Word::kAnything, &trust->name, false)
      .Argument("FILE", Word::kFile, &trust->file, false)
      .Flag("--allowed-signers", &trust->allowed_signers,
            "list: as a file for ssh-keygen -Y verify -f")
      .Example("trust add ann ~/.ssh/id_ed25519.pub")
      .Example("trust list --allowed-signers > allowed_signers")
      .Example("trust revoke ann");
}

void CommandLine::AddSecretCommand() {
  auto secret = std::make_shared<SecretOptions>();
  Command("secret", "put NAME|list|delete NAME[@V]",
          "Secrets: values that only workers get; nobody reads one back", Secret, secret)
      .Argument("ACTION", Word::kSecretAction, &secret->action)
      .Argument("NAME", Word::kAnything, &secret->name, false)
      .Flag("--file", "FILE", &secret->file,
            "put: the value (default: standard input, on a terminal typed without echo)")
      .Flag("--raw", &secret->raw, "put: a newline at its end belongs to it")
      .Flag("--keys", &secret->keys, "list: how many versions each key seals")
      .Example("secret put db < db.password")
      .Example("secret list")
      .Example("secret list --keys")
      .Example("secret delete db@3");
}

}  // namespace dfsmr::cli
