#include "clients/cli/training_flags.h"

#include "clients/cli/command.h"

namespace tessera::client {

void TrainingFlags::addTo(CLI::App* command) {
  CLI::Option* flag = command->add_flag("--train", train, "compile a step of the model's training (`tessera train`)");
  const auto of_training = [&](CLI::Option* option) { return option->needs(flag)->group("Training"); };
  flag->group("Training");
  of_training(command->add_option("--loss", loss,
                                  "cross-entropy (integer labels), mean-squared-error, or output: the output is the "
                                  "loss"));
  of_training(command->add_option("--loss-output", output, "the output that the loss reads, if the model has several"));
  of_training(command->add_option("--optimizer", optimizer, "sgd (default), adam, adamw or lamb"));
  of_training(command->add_option("--trainable", trainable,
                                  "initializer to train, * for any characters; may be repeated. Default: all of "
                                  "floating-point types"));
  of_training(command->add_option("--frozen", frozen, "initializer to leave as it is; may be repeated"));
  of_training(command->add_option("--momentum", momentum, "of sgd; default 0"))->check(nonNegative());
  of_training(command->add_flag("--nesterov", nesterov, "Nesterov's momentum, of sgd"));
  of_training(command->add_option("--beta1", beta1, "of adam, adamw, lamb; default 0.9"))->check(nonNegative());
  of_training(command->add_option("--beta2", beta2, "of adam, adamw, lamb; default 0.999"))->check(nonNegative());
  of_training(command->add_option("--epsilon", epsilon, "of adam, adamw (default 1e-8) and lamb (1e-6)"))
      ->check(nonNegative());
  of_training(command->add_option("--weight-decay", weight_decay, "default 0; 0.01 for adamw and lamb"))
      ->check(nonNegative());
  of_training(command->add_option("--clip-norm", max_gradient_norm, "scale gradients to this global norm, if larger"))
      ->check(positive());
}

absl::Status TrainingFlags::fill(v1::TrainingOptions& options) const {
  if (loss.empty())
    return absl::InvalidArgumentError("--train: found no --loss; accepted: cross-entropy, mean-squared-error, output");
  options.set_loss(loss);
  options.set_output(output);
  options.mutable_trainable()->Assign(trainable.begin(), trainable.end());
  options.mutable_frozen()->Assign(frozen.begin(), frozen.end());
  options.set_max_gradient_norm(max_gradient_norm);
  v1::OptimizerOptions& o = *options.mutable_optimizer();
  o.set_name(optimizer);
  o.set_momentum(momentum);
  o.set_nesterov(nesterov);
  if (beta1) o.set_beta1(*beta1);
  if (beta2) o.set_beta2(*beta2);
  if (epsilon) o.set_epsilon(*epsilon);
  if (weight_decay) o.set_weight_decay(*weight_decay);
  return absl::OkStatus();
}

}  // namespace tessera::client
