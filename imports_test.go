package waypost_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

// folder says what the packages of a folder, and of the folders below it, may
// import beside the standard library and each other. It is the design's table:
// domain at the root, adapters around it that do not know each other, wiring in
// app, programs on top.
type folder struct {
	ours  []string // folders of this module; "." is the root
	third []string // import path prefixes; whoever has no right to them must not get them through others either
	also  []string // the same, for libraries that many others bring along
}

var importTable = map[string]folder{
	".": {third: []string{"github.com/nyaruka/phonenumbers", "golang.org/x/net/idna"}, also: []string{"golang.org/x/text"}},
	"journey": {
		ours: []string{"."}, third: []string{"github.com/google/cel-go"},
		also: []string{lru, "golang.org/x/text"}, // letters and currencies of templates
	},
	// Data: schemas, tables and pages are made of it.
	"journey/nodes": {},
	// The wire: what the gateway answers is what its clients read.
	"api":       {ours: []string{"."}},
	"signature": {},
	"client":    {ours: []string{".", "signature"}},
	"listen":    {},
	"webhook":   {ours: []string{"."}, also: []string{lru}},
	// The messages between store and delivery are delivery's: the store carries them out for it alone.
	"store": {
		ours:  []string{".", "segment", "delivery"},
		third: []string{"github.com/uptrace/bun", "github.com/jackc/pgx/v5", "modernc.org/sqlite", "github.com/pressly/goose/v3", "github.com/HdrHistogram/hdrhistogram-go"},
		also:  []string{lru},
	},
	"searchsvc": {
		ours: []string{"."},
		third: []string{
			"github.com/typesense/typesense-go/v3",
			// bleve, its storage and what that is written in and on.
			"github.com/blevesearch", "github.com/RoaringBitmap/roaring/v2", "go.etcd.io/bbolt",
		},
		also: []string{
			"github.com/rivo/uniseg", "golang.org/x/text/cases", "golang.org/x/text/unicode/norm", // texts as they are compared
			"golang.org/x/sync/errgroup", backOff, lru,
		},
	},
	"limits":     {third: []string{"github.com/redis/go-redis/v9", "github.com/go-redis/redis_rate/v10"}, also: []string{lru}},
	"delivery":   {ours: []string{".", "journey"}, also: []string{backOff, lru}},
	"activities": {ours: []string{".", "journey", "delivery"}, third: temporalSDK},
	"workflows": {
		ours: []string{".", "journey", "delivery", "activities"}, third: temporalSDK,
		// The payloads that the codec compresses and encrypts; parsed definitions.
		also: []string{"google.golang.org/protobuf/proto", "github.com/klauspost/compress/zstd", lru},
	},
	"worker": {ours: []string{".", "delivery", "workflows", "activities", "config"}, third: temporalSDK},
	"gateway": {
		ours: []string{".", "api", "journey", "signature", "config", "listen"}, third: []string{"github.com/gofiber/fiber/v2", "github.com/valyala/fasthttp", "github.com/swaggest/swgui", "github.com/golang-jwt/jwt/v5"},
		also: []string{
			"golang.org/x/text/encoding", "golang.org/x/text/transform", // files in other charsets than UTF-8
			lru,
		},
	},
	// For the files that people write; the API takes JSON only.
	"segment":  {ours: []string{".", "journey"}, third: []string{"github.com/google/cel-go"}},
	"yamljson": {also: []string{yamlLibrary}},
	"console": {
		ours: []string{".", "api", "journey/nodes", "client", "yamljson"}, // what it shows comes from the gateway's interface alone
		third: []string{"github.com/alexedwards/scs/v2", "github.com/alexedwards/argon2id", "github.com/coreos/go-oidc/v3", "golang.org/x/oauth2",
			"github.com/go-webauthn/webauthn",
			"github.com/golang-jwt/jwt/v5",  // webauthn reads statements of authenticators with it
			"github.com/pquerna/otp",        // codes of apps, and their QR code
			"github.com/mileusna/useragent", // the names of browsers and systems, for people to tell their sessions apart
		},
		also: []string{yamlLibrary, "golang.org/x/sync/errgroup"},
	},
	"config":   {third: []string{"github.com/caarlos0/env/v11"}},
	"receiver": {ours: []string{"listen"}},
	"app": {
		ours: []string{".", "journey", "signature", "webhook", "store", "searchsvc", "limits", "delivery", "activities", "workflows", "worker", "gateway", "console", "client", "config", "listen"},
		// The wiring makes the clients and the server that others are given, and counts
		// for all of them. The codec endpoint is wiring and a token check (ADR 13).
		third: append([]string{
			"github.com/gofiber/fiber/v2", "github.com/redis/go-redis/v9", "github.com/prometheus/client_golang", "github.com/coreos/go-oidc/v3", "go.opentelemetry.io/otel",
		}, temporalSDK...),
		also: []string{backOff},
	},
	"cmd/waypost": {
		// The root for the types of the apps commands and for errors.
		ours:  []string{".", "api", "app", "signature", "client", "config", "receiver", "yamljson"},
		third: []string{"github.com/spf13/cobra"},
		also: []string{
			yamlLibrary,
			"github.com/rivo/uniseg", // how wide a text is on a terminal
		},
	},
}

// lru and backOff are for bounded caches in memory and for waits between tries, yamlLibrary
// is for files that people write.
const (
	lru     = "github.com/hashicorp/golang-lru/v2"
	backOff = "github.com/cenkalti/backoff/v5"

	yamlLibrary = "go.yaml.in/yaml/v3"
)

var temporalSDK = []string{"go.temporal.io/sdk", "go.temporal.io/api"}

// notLinked must not be in any program of this module, however it gets there.
var notLinked = []string{"go.temporal.io/server", "github.com/temporalio/ui-server", "github.com/alicebob/miniredis"}

// listed is a package as `go list -json` prints it.
type listed struct {
	ImportPath string
	Standard   bool
	Imports    []string
	Deps       []string // all it needs, directly or not
}

func TestImports(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Standard,Imports,Deps", "./...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	var packages []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
	if !slices.ContainsFunc(packages, func(p listed) bool { return p.ImportPath == "waypost" }) {
		t.Fatal("go list does not show the root package")
	}
	for _, violation := range violations(packages, importTable) {
		t.Error(violation)
	}
}

// violations compares a listing with the table.
func violations(packages []listed, table map[string]folder) []string {
	standard := map[string]bool{"unsafe": true, "C": true}
	for _, p := range packages {
		standard[p.ImportPath] = p.Standard
	}
	var out []string
	for _, p := range packages {
		own, ok := ourFolder(p.ImportPath)
		if !ok {
			continue
		}
		home, ok := homeOf(own, table)
		if !ok {
			out = append(out, fmt.Sprintf("%s: its folder is not in the import table", p.ImportPath))
			continue
		}
		reach := reachOf(home, table)
		for _, i := range p.Imports {
			if !standard[i] && !allowed(i, home, table[home]) {
				out = append(out, fmt.Sprintf("%s must not import %s", p.ImportPath, i))
			}
		}
		for _, d := range p.Deps {
			if standard[d] || slices.Contains(p.Imports, d) {
				continue
			}
			if _, ours := ourFolder(d); ours || governed(d, table) {
				if !allowed(d, home, reach) {
					out = append(out, fmt.Sprintf("%s must not depend on %s, not even through others", p.ImportPath, d))
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

// ourFolder is the folder of a package of this module.
func ourFolder(importPath string) (string, bool) {
	if importPath == "waypost" {
		return ".", true
	}
	return strings.CutPrefix(importPath, "waypost/")
}

// homeOf finds the row of a folder: its own, or that of the nearest folder above
// it. The root's row is for the root alone.
func homeOf(name string, table map[string]folder) (string, bool) {
	for {
		if _, ok := table[name]; ok {
			return name, true
		}
		if name = path.Dir(name); name == "." {
			return "", false
		}
	}
}

// reachOf is a row together with the rows of all folders that it may import,
// directly or not.
func reachOf(home string, table map[string]folder) folder {
	seen := map[string]bool{}
	var all folder
	var visit func(name string)
	visit = func(name string) {
		if seen[name] {
			return
		}
		seen[name] = true
		all.third = append(all.third, table[name].third...)
		all.also = append(all.also, table[name].also...)
		for _, o := range table[name].ours {
			visit(o)
		}
	}
	visit(home)
	all.ours = slices.Collect(maps.Keys(seen))
	return all
}

// allowed tells whether a package of the folder home may have importPath under
// the permissions of f.
func allowed(importPath, home string, f folder) bool {
	if name, ours := ourFolder(importPath); ours {
		return within(name, home) || slices.ContainsFunc(f.ours, func(o string) bool { return within(name, o) })
	}
	return slices.ContainsFunc(slices.Concat(f.third, f.also), func(t string) bool { return within(importPath, t) })
}

// governed tells whether a third-party package belongs to somebody's row, or to
// nobody's on purpose. What those packages bring along is their own affair.
func governed(importPath string, table map[string]folder) bool {
	if slices.ContainsFunc(notLinked, func(n string) bool { return within(importPath, n) }) {
		return true
	}
	for _, f := range table {
		if slices.ContainsFunc(f.third, func(t string) bool { return within(importPath, t) }) {
			return true
		}
	}
	return false
}

// within tells whether name is parent or lies below it.
func within(name, parent string) bool {
	return name == parent || (parent != "." && strings.HasPrefix(name, parent+"/"))
}

// The checker finds what it is there for.
func TestImportsFindsViolations(t *testing.T) {
	t.Parallel()
	std := listed{ImportPath: "net/http", Standard: true}
	for _, tt := range []struct {
		name     string
		packages []listed
		want     []string
	}{
		{"clean", []listed{
			{ImportPath: "waypost", Imports: []string{"net/http"}, Deps: []string{"net/http"}},
			{ImportPath: "waypost/journey", Imports: []string{"waypost", "github.com/google/cel-go/cel"}, Deps: []string{"waypost", "net/http", "github.com/google/cel-go/cel", "example.com/below/cel"}},
			{ImportPath: "waypost/store/storetest", Imports: []string{"waypost/store", "waypost"}, Deps: []string{"waypost/store", "waypost", "github.com/uptrace/bun"}},
			{ImportPath: "github.com/google/cel-go/cel", Imports: []string{"example.com/below/cel"}},
		}, nil},
		{"ours", []listed{{ImportPath: "waypost/gateway", Imports: []string{"waypost/store"}, Deps: []string{"waypost/store"}}},
			[]string{"waypost/gateway must not import waypost/store"}},
		{"the root imports an adapter", []listed{{ImportPath: "waypost", Imports: []string{"waypost/journey"}, Deps: []string{"waypost/journey"}}},
			[]string{"waypost must not import waypost/journey"}},
		{"third party", []listed{{ImportPath: "waypost/signature", Imports: []string{"golang.org/x/crypto/hkdf"}, Deps: []string{"golang.org/x/crypto/hkdf"}}},
			[]string{"waypost/signature must not import golang.org/x/crypto/hkdf"}},
		{"a name that only begins alike", []listed{{ImportPath: "waypost/config", Imports: []string{"github.com/caarlos0/env/v11x"}, Deps: []string{"github.com/caarlos0/env/v11x"}}},
			[]string{"waypost/config must not import github.com/caarlos0/env/v11x"}},
		{"transitive, third party", []listed{{ImportPath: "waypost/gateway", Imports: []string{"github.com/gofiber/fiber/v2"}, Deps: []string{"github.com/gofiber/fiber/v2", "go.temporal.io/sdk/client"}}},
			[]string{"waypost/gateway must not depend on go.temporal.io/sdk/client, not even through others"}},
		{"transitive, ours", []listed{
			{ImportPath: "waypost/limits", Imports: []string{"github.com/redis/go-redis/v9"}, Deps: []string{"github.com/redis/go-redis/v9", "waypost/store"}},
		}, []string{"waypost/limits must not depend on waypost/store, not even through others"}},
		{"Temporal's server", []listed{{ImportPath: "waypost/app", Imports: []string{"waypost/worker"}, Deps: []string{"waypost/worker", "go.temporal.io/server/temporal"}}},
			[]string{"waypost/app must not depend on go.temporal.io/server/temporal, not even through others"}},
		{"a folder without a row", []listed{{ImportPath: "waypost/helpers"}, {ImportPath: "waypost/cmd/other"}},
			[]string{"waypost/cmd/other: its folder is not in the import table", "waypost/helpers: its folder is not in the import table"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := violations(append(tt.packages, std), importTable); !slices.Equal(got, tt.want) {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}
