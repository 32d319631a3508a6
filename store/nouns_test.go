package store

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mostMethods is how many methods a type of the package may have.
const mostMethods = 60

// nouns are the members of Store, from the top to the bottom, and what stands against their order: each
// noun is declared in the order of Store and has only members that stand below it. Whoever is not a
// member cannot be called.
func nouns(file *ast.File) (order, faults []string) {
	structs := map[string]*ast.StructType{}
	var declared []string
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE {
			continue
		}
		for _, s := range g.Specs {
			name := s.(*ast.TypeSpec).Name.Name
			if t, ok := s.(*ast.TypeSpec).Type.(*ast.StructType); ok {
				structs[name] = t
				declared = append(declared, name)
			}
		}
	}
	order = members(structs["Store"])
	order = slices.DeleteFunc(order, func(n string) bool { return n == "db" })
	if want := append([]string{"Store"}, order...); !slices.Equal(declared, want) {
		faults = append(faults, fmt.Sprintf("declared are %q, members of Store are %q", declared, want))
	}
	for i, noun := range order {
		if structs[noun] == nil {
			continue
		}
		for _, uses := range members(structs[noun]) {
			if at := slices.Index(order, uses); at >= 0 && at <= i {
				faults = append(faults, fmt.Sprintf("%s uses %s, which does not stand below it", noun, uses))
			}
		}
	}
	return order, faults
}

// members are the types of a struct's members that are pointers to types of the package.
func members(s *ast.StructType) (types []string) {
	for _, f := range s.Fields.List {
		if p, ok := f.Type.(*ast.StarExpr); ok {
			if id, ok := p.X.(*ast.Ident); ok {
				types = append(types, id.Name)
			}
		}
	}
	return types
}

// receiver is the type that a function is a method of, "" if of none.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	t := f.Recv.List[0].Type
	if p, ok := t.(*ast.StarExpr); ok {
		t = p.X
	}
	if i, ok := t.(*ast.IndexExpr); ok {
		t = i.X
	}
	return t.(*ast.Ident).Name
}

// The nouns call each other downwards only, have all methods of Store among them, and none has many.
func TestNouns(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	set, methods := token.NewFileSet(), map[string]int{}
	var order []string
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				methods[receiver(f)]++
			}
		}
		if name == "nouns.go" {
			var faults []string
			if order, faults = nouns(file); len(faults) > 0 {
				t.Errorf("%s:\n%s", name, strings.Join(faults, "\n"))
			}
		}
	}
	for _, noun := range order {
		if methods[noun] == 0 {
			t.Errorf("%s has no methods", noun)
		}
	}
	if methods["Store"] > 0 {
		t.Errorf("%d methods belong to Store itself, and to no noun", methods["Store"])
	}
	delete(methods, "") // functions
	for of, n := range methods {
		if n > mostMethods {
			t.Errorf("%s has %d methods; %d at most", of, n, mostMethods)
		}
	}
}

// The checker finds what it is there for.
func TestNounsFindsFaults(t *testing.T) {
	t.Parallel()
	const store = "package store\ntype Store struct { *db; *launches; *leads }\n"
	for _, tt := range []struct{ name, text, want string }{
		{"calls down", store + "type launches struct { *db; leads *leads }\ntype leads struct { *db }", ""},
		{"calls up", store + "type launches struct { *db }\ntype leads struct { *db; launches *launches }", "leads uses launches, which does not stand below it"},
		{"itself", store + "type launches struct { *db; other *launches }\ntype leads struct { *db }", "launches uses launches, which does not stand below it"},
		{"another order", store + "type leads struct { *db }\ntype launches struct { *db }", `declared are ["Store" "leads" "launches"]`},
		{"a noun that Store lacks", store + "type launches struct { *db }\ntype leads struct { *db }\ntype apps struct { *db }", `declared are ["Store" "launches" "leads" "apps"]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			file, err := parser.ParseFile(token.NewFileSet(), "nouns.go", tt.text, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			_, faults := nouns(file)
			if got := strings.Join(faults, "\n"); tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
