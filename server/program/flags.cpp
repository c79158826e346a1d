#include "server/program/flags.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "proto/version/version.h"
#include "storage/postgres_store.h"

namespace tessera::server {
namespace {

CLI::Validator serverName() {
  return {[](const std::string& name) -> std::string {
            const bool good = !name.empty() && name.size() <= 32 && absl::ascii_isalpha(name.front()) &&
                              std::all_of(name.begin(), name.end(), absl::ascii_isalnum);
            return good ? "" : "accepted: up to 32 letters and digits, beginning with a letter; found " + name;
          },
          "NAME"};
}

CLI::Validator postgresUri() {
  return {[](const std::string& store) -> std::string {
            return storage::isPostgresUri(store)
                       ? ""
                       : "accepted: postgresql://HOST/DATABASE";  // not echoed: it may hold a password
          },
          "URI"};
}

}  // namespace

void addFlags(CLI::App& app, Flags& flags) {
  app.set_version_flag("--version", absl::StrCat("tesserad ", releaseVersion(), " (compiler ", compilerVersion(),
                                                 ", LLVM ", llvmVersion(), ")"));
  app.add_option("--data-dir", flags.data_dir, "Folder of the database and the blobs; created if absent")
      ->capture_default_str();
  app.add_option("--store", flags.store,
                 "Keep jobs and records in this PostgreSQL database (postgresql://...) instead of the folder's own")
      ->check(postgresUri());
  app.add_option("--listen", flags.listen, "host:port (port 0: any free one) or unix:/path; may be repeated")
      ->capture_default_str();
  app.add_option("--worker-listen", flags.worker_listen,
                 "Likewise, for workers of other machines, each with a token; may be repeated");
  app.add_option("--web-listen", flags.web_listen,
                 "host:port of the web page and the API as JSON, e.g. 127.0.0.1:7480; may be repeated; default: none");
  app.add_option("--web-host", flags.web_hosts, "Additional host name of this machine for browsers; may be repeated");
  app.add_option("--metrics-listen", flags.metrics_listen,
                 "host:port of /metrics (Prometheus), /healthz and /readyz, e.g. 127.0.0.1:7490; may be repeated; "
                 "default: none");
  app.add_option("--tls-cert", flags.tls_certificate, "Use TLS with this server's certificates (PEM)")
      ->check(CLI::ExistingFile);
  app.add_option("--tls-key", flags.tls_key, "Private key of --tls-cert (PEM)")->check(CLI::ExistingFile);
  app.add_option("--tls-client-ca", flags.tls_client_authority,
                 "Accept client certificates of this authority (PEM) instead of tokens")
      ->check(CLI::ExistingFile);
  app.add_flag("--require-certificates", flags.need_certificate,
               "Reject callers without a certificate, even with a valid token");
  app.add_flag("--require-tokens", flags.need_credential,
               "Reject callers without a token or certificate; always so if --listen has more than loopback addresses");
  app.add_flag("--insecure-let-anyone-in", flags.insecure,
               "Serve other machines in plain text, and accept callers without a credential");
  app.add_option("--max-calls", flags.max_calls, "Concurrent calls of all callers")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--max-calls-of-one", flags.max_calls_of_one,
                 "Concurrent calls of one token, or of one machine without a token")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--max-connections", flags.max_connections, "Open connections, except to Unix sockets")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--max-connections-of-one", flags.max_connections_of_one, "Open connections of one machine")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--scrub-rate", flags.scrub_rate_bytes,
                 "Bytes per second at which every blob is read once a day to find damaged ones; 0: never")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option("--max-held-bytes", flags.max_held_bytes, "Memory of all waiting requests together")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option("--quotas", flags.quotas_file,
                 "Quotas of projects: a text proto of tessera.v1.Quotas, read again when it changes")
      ->check(CLI::ExistingFile);
  app.add_option("--audit-log", flags.audit_file,
                 "Write changes and rejected calls to this file as JSON lines; SIGHUP opens it again");
  app.add_option("--workers", flags.workers, "Local workers to run; 0 for none")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_option("--server-name", flags.server_name,
                 "Name among the servers on one --store, and part of the local workers' names: local-NAME-0, ...; "
                 "default: with --store a random name, kept in the data folder, otherwise local-0, local-1, ...")
      ->check(serverName());
  auto* backup =
      app.add_option("--backup-to", flags.backup_to, "Copy the data folder there, also of a running service, and end");
  app.add_option("--restore-from", flags.restore_from, "Create the data folder from a backup, and end")
      ->excludes(backup);
  auto* migrate = app.add_option("--migrate-from", flags.migrate_from,
                                 "Copy all data of this data folder, or of this database (postgresql://...), to the "
                                 "place that --store and --blobs or --data-dir name, and end");
  migrate->excludes(backup);
  app.add_option("--migrate-from-blobs", flags.migrate_from_blobs,
                 "The object store of the database of --migrate-from, as for --blobs")
      ->needs(migrate);
  app.add_flag("--json", flags.json, "With --backup-to, --restore-from or --migrate-from: print a summary as JSON");
  app.add_option("--worker-binary", flags.worker_binary, "Default: tessera-worker in the folder of this program");
  app.add_option("--sandbox-user", flags.sandbox_user,
                 "User of the local workers' tasks, which should own nothing else; needs root");
  app.add_option("--require-sandbox", flags.require_sandbox,
                 "Accept no worker, local or remote, without these measures (files, namespaces, user, ...); full: all "
                 "measures")
      ->delimiter(',');
  app.add_option("--share-cache", flags.share_cache,
                 "reproduced: projects share built objects that two workers have built with identical bytes; no: each "
                 "project has a cache of its own")
      ->check(CLI::IsMember({"no", "reproduced"}))
      ->capture_default_str();
  app.add_option("--worker-arg", flags.worker_arguments, "Argument for each local worker; may be repeated");
  app.add_flag("--die-with-parent", flags.die_with_parent, "Drain when the process that started this one ends");
  app.add_option("--log-level", flags.log_level, "trace, debug, info, warn, error")
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error"}))
      ->capture_default_str();
  app.add_option("--log-format", flags.log_format, "text, or json: one object per line, with ids of jobs and requests")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  app.add_option("--log-file", flags.log_file, "Also log to this file, in 5 parts of 20 MB");
  app.add_option("--lease", flags.lease_s, "Seconds without a heartbeat after which a task goes to another worker")
      ->check(CLI::Range(1.0, 3600.0))
      ->capture_default_str();
  app.add_option("--heartbeat", flags.heartbeat_s, "Seconds between heartbeats; a cancelled task ends within this time")
      ->check(CLI::Range(0.05, 60.0))
      ->capture_default_str();
  app.add_option("--run-timeout", flags.run_timeout_s, "Seconds that one task may run, unless the request sets a limit")
      ->check(CLI::Range(1.0, 604800.0))
      ->capture_default_str();
  app.add_option("--queue-timeout", flags.queue_timeout_s,
                 "Seconds that a job may wait to start, unless the request sets a limit")
      ->check(CLI::Range(1.0, 604800.0))
      ->capture_default_str();
  app.add_option("--total-timeout", flags.total_timeout_s,
                 "Seconds that a whole job may take, unless the request sets a limit")
      ->check(CLI::Range(1.0, 604800.0))
      ->capture_default_str();
  app.add_option("--no-worker-timeout", flags.no_worker_s,
                 "Seconds after which a task fails that no live worker can run")
      ->check(CLI::Range(1.0, 604800.0))
      ->capture_default_str();
  app.add_option("--drain-timeout", flags.drain_timeout_s, "After SIGTERM, seconds for running tasks to finish")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  app.add_option("--max-model-bytes", flags.max_model_bytes, "Largest model file, e.g. 512MiB")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option("--max-blob-bytes", flags.max_blob_bytes, "Largest blob, e.g. 16GiB")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  auto* blobs =
      app.add_option("--blobs", flags.blobs,
                     "Keep blobs in an object store that other machines reach: s3://BUCKET[/PREFIX]?endpoint=URL"
                     "[&region=NAME], or the absolute path of a shared folder; default: in the data folder");
  app.add_option(
         "--bind-blobs", flags.bind_blobs,
         "With --blobs: take over an object store that has this mark of another database, or \"none\"; the message "
         "of a start that was refused names it")
      ->needs(blobs);
  app.add_option("--blob-cache", flags.blob_cache_bytes,
                 "With --blobs: limit of the local copies in the data folder; the least recently read are deleted")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option("--blob-quota", flags.blob_quota_bytes,
                 "Limit of all blobs together, e.g. 100GiB; further uploads are rejected; 0: no limit")
      ->transform(CLI::AsSizeValue(false))
      ->excludes(blobs)
      ->capture_default_str();
  app.add_option("--disk-reserve", flags.disk_reserve_bytes,
                 "Disk space that blobs leave free for the database, e.g. 1GiB; 0: none")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  const auto keep = [&app](const char* name, double& hours, const char* what) {
    app.add_option(name, hours, what)->check(CLI::Range(0.0, 1e6))->capture_default_str();
  };
  keep("--keep-jobs", flags.keep_jobs_h, "Hours that jobs are kept after their end; 0, here and below: forever");
  keep("--keep-events", flags.keep_events_h, "Hours that their events are kept");
  keep("--keep-artifacts", flags.keep_artifacts_h, "Hours that artifacts are kept after their last use");
  keep("--keep-objects", flags.keep_objects_h, "Hours that built objects are kept after their last use");
  keep("--keep-records", flags.keep_records_h,
       "Hours that tuning records are kept; the four fastest of each workload and chip stay");
  keep("--keep-blobs", flags.keep_blobs_h, "Hours that blobs without a reference are kept (at least one)");
  keep("--collect-every", flags.collect_every_h, "Hours between collections; 0: only by `tessera admin gc`");
  app.add_option("--keep-artifact-bytes", flags.keep_artifact_bytes,
                 "Limit of all artifacts together; the least recently used are deleted first; 0: no limit")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option("--keep-object-bytes", flags.keep_object_bytes, "Likewise for built objects")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option("--task-memory", flags.task_memory_bytes, "Address space of one task, e.g. 16GiB; 0: the worker's")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
}

}  // namespace tessera::server
