// The commands for those who run a server.
#include "dcli/line/command_line.h"

namespace dfsmr::cli {

void CommandLine::AddBackupCommand() {
  auto backup = std::make_shared<BackupOptions>();
  Command("backup", "DIR|-", "Back up the whole store while it serves, as one file", Backup, backup)
      .Argument("DIR", Word::kFile, &backup->to)
      .Example("backup /backup")
      .Example("backup - | ssh vault 'cat > dfsmr.tar.zst'");
}

}  // namespace dfsmr::cli
