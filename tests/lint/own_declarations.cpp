// A plugin of clang-tidy that keeps it to declarations of ours.
//
// clang-tidy walks every declaration of a translation unit and only skips the checks where one comes from a system
// header. Walking alone, and asking for the parents of what it found, reads all of a precompiled header (MLIR's has
// 250 MB), which takes most of its time. The check registered here reports nothing: it is asked about the translation
// unit before its children are, and leaves only those of our files to walk, as clangd does with the file in its window.
//
// The price: a check cannot find a parent of ours outside of our files. All of ours lie in namespaces of ours.

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
    // Not decls(): it would load those of the precompiled header.
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
