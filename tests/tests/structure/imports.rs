//! Which file of a crate names items of which other file.
//!
//! A path leads to the file that defines what it names: re-exports are followed, and `mod` and `pub use` themselves
//! need nothing. Test modules are left out. Of what a macro of the project generates, only the names are known.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

/// A module's path within its crate; empty for the root.
type ModulePath = Vec<String>;

/// From a file to the files it needs, each with the names it needs there.
pub(crate) type Needs = BTreeMap<PathBuf, BTreeMap<PathBuf, BTreeSet<String>>>;

/// The modules of one crate, and what each defines, imports and names.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    modules: BTreeMap<ModulePath, Module>,
}

#[derive(Debug, Default)]
struct Module {
    file: PathBuf,
    children: BTreeSet<String>,
    defined: BTreeSet<String>,
    /// Every word in the calls of macros that may define items.
    generated: BTreeSet<String>,
    imports: Vec<Import>,
    paths: BTreeSet<Vec<String>>,
    /// Paths that a derive macro may or may not call.
    from_attributes: BTreeSet<Vec<String>>,
}

#[derive(Debug)]
struct Import {
    /// The name it has here; none for `*`.
    name: Option<String>,
    path: Vec<String>,
    is_private: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    Module(ModulePath),
    /// An item, or something within it: the module that defines it, and its name.
    Item(ModulePath, String),
    OtherCrate,
}

impl Modules {
    /// The modules from the crate's root file on. `read` gives a file's text, or none where there is no such file.
    pub(crate) fn read(root: &Path, read: &dyn Fn(&Path) -> Option<String>) -> Self {
        let mut modules = Self::default();
        modules.read_file(root, Vec::new(), read);
        modules
    }

    fn read_file(&mut self, file: &Path, path: ModulePath, read: &dyn Fn(&Path) -> Option<String>) {
        let text = read(file).unwrap_or_else(|| panic!("{}: no such file", file.display()));
        let parsed =
            syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let mut reader = Reader {
            file,
            current: path.clone(),
            modules: BTreeMap::new(),
            files: Vec::new(),
        };
        reader.module();
        reader.visit_file(&parsed);
        let Reader { modules, files, .. } = reader;
        self.modules.extend(modules);
        let owns_folder = path.is_empty() || file.ends_with("mod.rs");
        let folder = if owns_folder {
            file.parent().unwrap().to_owned()
        } else {
            file.with_extension("")
        };
        for child in files {
            let below = child[path.len()..].iter().collect::<PathBuf>();
            let beside = folder.join(&below).with_extension("rs");
            let inside = folder.join(&below).join("mod.rs");
            let file = if read(&beside).is_some() {
                beside
            } else {
                inside
            };
            self.read_file(&file, child, read);
        }
    }

    /// What every file needs of the others.
    ///
    /// # Panics
    /// If a path that starts at `crate`, `super` or `self` leads nowhere: then some of what is needed was not seen.
    pub(crate) fn needs(&self) -> Needs {
        let mut needs = Needs::new();
        for (path, module) in &self.modules {
            let private = module.imports.iter().filter(|import| import.is_private);
            let named = private.map(|import| &import.path).chain(&module.paths);
            for named in named.chain(&module.from_attributes) {
                let targets = self.resolve(path, named, &mut BTreeSet::new());
                let is_internal = matches!(named[0].as_str(), "crate" | "super" | "self");
                assert!(
                    !targets.is_empty() || !is_internal || module.from_attributes.contains(named),
                    "{}: {} leads nowhere",
                    module.file.display(),
                    named.join("::")
                );
                for target in targets {
                    let Target::Item(owner, name) = target else {
                        continue;
                    };
                    let owner = &self.modules[&owner].file;
                    if *owner != module.file {
                        let needed = needs.entry(module.file.clone()).or_default();
                        needed.entry(owner.clone()).or_default().insert(name);
                    }
                }
            }
        }
        needs
    }

    fn resolve(
        &self,
        from: &ModulePath,
        path: &[String],
        seen: &mut BTreeSet<(ModulePath, String)>,
    ) -> BTreeSet<Target> {
        let mut targets = BTreeSet::from([Target::Module(from.clone())]);
        for (index, segment) in path.iter().enumerate() {
            let mut next = BTreeSet::new();
            for target in targets {
                let Target::Module(module) = target else {
                    next.insert(target);
                    continue;
                };
                match segment.as_str() {
                    "crate" => next.extend([Target::Module(Vec::new())]),
                    "self" => next.extend([Target::Module(module)]),
                    "super" => {
                        let parent = &module[..module.len().saturating_sub(1)];
                        next.extend([Target::Module(parent.to_owned())]);
                    }
                    name => next.extend(self.look_up(&module, name, seen)),
                }
            }
            if next.is_empty() && index == 0 {
                next.insert(Target::OtherCrate);
            }
            targets = next;
        }
        targets
    }

    /// What a name in a module may stand for.
    fn look_up(
        &self,
        path: &ModulePath,
        name: &str,
        seen: &mut BTreeSet<(ModulePath, String)>,
    ) -> BTreeSet<Target> {
        let mut targets = BTreeSet::new();
        if !seen.insert((path.clone(), name.to_owned())) {
            return targets;
        }
        let module = &self.modules[path];
        if module.children.contains(name) {
            let mut child = path.clone();
            child.push(name.to_owned());
            targets.insert(Target::Module(child));
        }
        if module.defined.contains(name) {
            targets.insert(Target::Item(path.clone(), name.to_owned()));
        }
        for import in &module.imports {
            if import.name.as_deref() == Some(name) {
                targets.extend(self.resolve(path, &import.path, seen));
            }
        }
        if targets.is_empty() {
            for import in module.imports.iter().filter(|import| import.name.is_none()) {
                for from in self.resolve(path, &import.path, seen) {
                    match from {
                        Target::Module(from) => targets.extend(self.look_up(&from, name, seen)),
                        Target::OtherCrate => targets.extend([from]),
                        Target::Item(..) => {}
                    }
                }
            }
        }
        if targets.is_empty() && module.generated.contains(name) {
            targets.insert(Target::Item(path.clone(), name.to_owned()));
        }
        seen.remove(&(path.clone(), name.to_owned()));
        targets
    }
}

/// Reads one file into its module and the modules inline in it.
struct Reader<'a> {
    file: &'a Path,
    current: ModulePath,
    modules: BTreeMap<ModulePath, Module>,
    /// The modules in files of their own.
    files: Vec<ModulePath>,
}

impl Reader<'_> {
    fn module(&mut self) -> &mut Module {
        let module = self.modules.entry(self.current.clone()).or_default();
        module.file = self.file.to_owned();
        module
    }

    fn import(&mut self, tree: &syn::UseTree, mut path: Vec<String>, is_private: bool) {
        let name = match tree {
            syn::UseTree::Path(tree) => {
                path.push(tree.ident.to_string());
                return self.import(&tree.tree, path, is_private);
            }
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(tree, path.clone(), is_private);
                }
                return;
            }
            syn::UseTree::Glob(_) => None,
            syn::UseTree::Name(name) if name.ident == "self" => path.last().cloned(),
            syn::UseTree::Name(name) => {
                path.push(name.ident.to_string());
                path.last().cloned()
            }
            syn::UseTree::Rename(rename) => {
                if rename.ident != "self" {
                    path.push(rename.ident.to_string());
                }
                Some(rename.rename.to_string())
            }
        };
        self.module().imports.push(Import {
            name,
            path,
            is_private,
        });
    }

    /// Paths within what a macro is given, which has no grammar of its own.
    fn tokens(&mut self, tokens: &TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut before = (' ', ' ');
        for token in tokens.clone() {
            match token {
                TokenTree::Ident(ident) => {
                    if before != (':', ':') {
                        self.name(&mut path);
                    }
                    // A field or a method is no path.
                    if before.1 != '.' {
                        path.push(ident.to_string());
                    }
                    before = (' ', ' ');
                }
                TokenTree::Punct(punct) => {
                    before = (before.1, punct.as_char());
                    if punct.as_char() != ':' {
                        self.name(&mut path);
                    }
                }
                TokenTree::Group(group) => {
                    self.name(&mut path);
                    self.tokens(&group.stream());
                    before = (' ', ' ');
                }
                TokenTree::Literal(_) => {
                    self.name(&mut path);
                    before = (' ', ' ');
                }
            }
        }
        self.name(&mut path);
    }

    fn name(&mut self, path: &mut Vec<String>) {
        let path = std::mem::take(path);
        let is_a_value = path.len() == 1 && matches!(path[0].as_str(), "self" | "super" | "crate");
        if !path.is_empty() && path[0] != "Self" && !is_a_value {
            self.module().paths.insert(path);
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let (attributes, name): (&[syn::Attribute], Option<&syn::Ident>) = match item {
            syn::Item::Const(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Enum(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Fn(item) => (&item.attrs, Some(&item.sig.ident)),
            syn::Item::Impl(item) => (&item.attrs, None),
            syn::Item::Macro(item) => (&item.attrs, item.ident.as_ref()),
            syn::Item::Mod(item) => (&item.attrs, None),
            syn::Item::Static(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Struct(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Trait(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Type(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Union(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Use(item) => (&item.attrs, None),
            _ => (&[], None),
        };
        if is_for_tests(attributes) {
            return;
        }
        if let Some(name) = name {
            self.module().defined.insert(name.to_string());
        }
        if let syn::Item::Macro(call) = item
            && call.ident.is_none()
        {
            let words = idents(&call.mac.tokens);
            self.module().generated.extend(words);
        }
        visit::visit_item(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_for_tests(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_foreign_item_fn(&mut self, item: &'ast syn::ForeignItemFn) {
        self.module().defined.insert(item.sig.ident.to_string());
        visit::visit_foreign_item_fn(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let name = item.ident.to_string();
        assert!(
            !item.attrs.iter().any(|attr| attr.path().is_ident("path")),
            "{}: {name} is a module with a path of its own",
            self.file.display()
        );
        self.module().children.insert(name.clone());
        self.current.push(name);
        if let Some((_, items)) = &item.content {
            self.module();
            for item in items {
                self.visit_item(item);
            }
        } else {
            self.files.push(self.current.clone());
        }
        self.current.pop();
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if item.leading_colon.is_none() {
            let is_private = matches!(item.vis, syn::Visibility::Inherited);
            self.import(&item.tree, Vec::new(), is_private);
        }
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            let segments = path.segments.iter();
            self.name(&mut segments.map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        visit::visit_macro(self, call);
        self.tokens(&call.tokens);
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        if let syn::Meta::List(list) = &attribute.meta {
            self.tokens(&list.tokens);
            for function in functions_of_serde(&list.tokens) {
                self.module().from_attributes.insert(function);
            }
        }
    }
}

fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            let tokens = list.tokens.to_string();
            let words: Vec<_> = tokens.split(|c: char| !c.is_alphanumeric()).collect();
            words.contains(&"test") && !words.contains(&"not")
        }
        _ => false,
    })
}

fn idents(tokens: &TokenStream) -> Vec<String> {
    let mut found = Vec::new();
    for token in tokens.clone() {
        match token {
            TokenTree::Ident(ident) => found.push(ident.to_string()),
            TokenTree::Group(group) => found.extend(idents(&group.stream())),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
    found
}

/// The paths that serde's attributes have as texts: `default = "path"`, `with = "path"`.
fn functions_of_serde(tokens: &TokenStream) -> Vec<Vec<String>> {
    let mut functions = Vec::new();
    let mut key = String::new();
    for token in tokens.clone() {
        match token {
            TokenTree::Ident(ident) => key = ident.to_string(),
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                let path = text.trim_matches('"').split("::").map(str::to_owned);
                let path: Vec<String> = path.collect();
                match key.as_str() {
                    "with" => {
                        for end in ["serialize", "deserialize"] {
                            functions.push([path.clone(), vec![end.to_owned()]].concat());
                        }
                    }
                    "default" | "serialize_with" | "deserialize_with" | "skip_serializing_if" => {
                        functions.push(path);
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }
    functions
}
