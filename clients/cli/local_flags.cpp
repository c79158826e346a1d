#include "clients/cli/local_flags.h"

namespace tessera::client {

void LocalFlags::addTo(CLI::App* command) {
  command->add_flag("--local", local, "start tesserad here for this command");
  command->add_option("--data-dir", data_folder, "with --local: its data folder")->needs("--local");
  command->add_option("--workers", workers, "with --local: number of workers (0: one a core)")
      ->needs("--local")
      ->check(CLI::Range(0, 1024));
}

absl::StatusOr<std::unique_ptr<LocalService>> LocalFlags::start(CommandLine& line) const {
  if (!local) return nullptr;
  auto service = LocalService::start(data_folder, workers);
  if (service.ok()) {
    line.server = (*service)->address();
    line.check_service = [running = service->get()] { return running->check(); };
  }
  return service;
}

}  // namespace tessera::client
