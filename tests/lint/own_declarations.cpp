// A clang-tidy plugin that limits it to declarations of this repository.
//
// clang-tidy traverses all declarations of a translation unit, and skips checks only for those of system headers. The
// traversal, and the lookup of parents of findings, deserialize the whole precompiled header (MLIR's has 250 MB), which
// takes most of the time. The check registered here reports nothing. It runs on the translation unit before its
// children, and restricts the traversal scope to declarations of our files, as clangd does with the open file.
//
// The price: a check cannot find a parent outside of our files. All of our code is in our namespaces, so this does not
// matter.

#include <memory>
#include <vector>

#include "clang-tidy/ClangTidyCheck.h"
#include "clang-tidy/ClangTidyModule.h"
#include "clang/AST/ASTContext.h"
#include "clang/ASTMatchers/ASTMatchers.h"
#include "clang/Basic/SourceManager.h"

namespace tessera {
namespace {

class OwnDeclarations : public clang::tidy::ClangTidyCheck {
 public:
  using ClangTidyCheck::ClangTidyCheck;

  void registerMatchers(clang::ast_matchers::MatchFinder* finder) override {
    finder->addMatcher(clang::ast_matchers::translationUnitDecl(), this);
  }

  void check(const clang::ast_matchers::MatchFinder::MatchResult& result) override {
    std::vector<clang::Decl*> own;
    // Not decls(), which would deserialize those of the precompiled header.
    for (clang::Decl* declaration : result.Context->getTranslationUnitDecl()->noload_decls()) {
      const clang::SourceLocation location = declaration->getLocation();
      if (!declaration->isFromASTFile() && location.isValid() && !result.SourceManager->isInSystemHeader(location)) {
        own.push_back(declaration);
      }
    }
    result.Context->setTraversalScope(own);
  }
};

class Module : public clang::tidy::ClangTidyModule {
 public:
  void addCheckFactories(clang::tidy::ClangTidyCheckFactories& factories) override {
    factories.registerCheck<OwnDeclarations>("tessera-own-declarations");
  }
};

const clang::tidy::ClangTidyModuleRegistry::Add<Module> kRegistered("tessera", "keeps clang-tidy to our declarations");

}  // namespace
}  // namespace tessera
