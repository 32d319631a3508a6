package main

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const typescriptDir = "../../clients/typescript"

// The client in TypeScript signs the vectors, and calls every operation of openapi.yaml at a gateway. What its README
// shows is a program that runs.
func TestTypeScriptClient(t *testing.T) {
	t.Parallel()
	needTools(t, "node", "npm")
	run := func(env []string, name string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir, cmd.Env = typescriptDir, append(os.Environ(), env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
	}
	if _, err := os.Stat(filepath.Join(typescriptDir, "node_modules", "openapi-fetch")); err != nil {
		if os.Getenv("WAYPOST_TEST_REQUIRE_SERVERS") != "1" {
			t.Skip("run npm ci in clients/typescript to run this")
		}
		run(nil, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	}
	run(nil, "npm", "run", "--silent", "build")
	settings := newClientOf(t)
	operations := filepath.Join(t.TempDir(), "operations.json")
	if err := os.WriteFile(operations, operationsOf(t), 0o600); err != nil {
		t.Fatal(err)
	}
	run(append(settings, "WAYPOST_OPERATIONS="+operations), "node", "--test", "test/client.mjs")

	text, err := os.ReadFile(filepath.Join(typescriptDir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	program := "const { WAYPOST_URL = '', WAYPOST_ACCESS_KEY: accessKey = '', WAYPOST_SECRET_KEY: secretKey = '' } = process.env\nconst csv = 'name\\nEve\\n'\n" +
		strings.Join(blocksOf(t, string(text), "ts"), "\n")
	program = strings.NewReplacer("'waypost-client'", "'./index.js'", "'http://127.0.0.1:8080'", "WAYPOST_URL").Replace(program)
	if err := os.WriteFile(filepath.Join(typescriptDir, "dist", "readme.mts"), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	run(nil, "node_modules/.bin/tsc", "--target", "es2022", "--module", "nodenext", "--skipLibCheck", "--strict", "dist/readme.mts")
	run(settings, "node", "dist/readme.mjs")
}

// operationsOf is what openapi.yaml says of the operations whose requests are signed.
func operationsOf(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile("../../gateway/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	type operation struct {
		Method   string   `json:"method"`
		Path     string   `json:"path"`
		Statuses []string `json:"statuses"`
		Body     any      `json:"body,omitempty"`
	}
	var file struct {
		Paths map[string]map[string]yaml.Node `yaml:"paths"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	var all []operation
	for _, path := range slices.Sorted(maps.Keys(file.Paths)) {
		for method, node := range file.Paths[path] {
			var described struct {
				OperationID string `yaml:"operationId"`
				Security    *[]any `yaml:"security"` // of an operation that is not signed
				Responses   map[string]any
				RequestBody *struct {
					Content map[string]struct {
						Example any
					}
				} `yaml:"requestBody"`
			}
			if !slices.Contains([]string{"get", "post", "put", "patch", "delete"}, method) {
				continue
			}
			if err := node.Decode(&described); err != nil {
				t.Fatal(err)
			}
			if described.Security != nil {
				continue
			}
			op := operation{Method: method, Path: path, Statuses: slices.Sorted(maps.Keys(described.Responses))}
			if described.RequestBody != nil {
				if op.Body = described.RequestBody.Content["application/json"].Example; op.Body == nil {
					op.Body = map[string]any{}
				}
			}
			all = append(all, op)
		}
	}
	if len(all) < 80 {
		t.Fatalf("%d operations", len(all))
	}
	written, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return written
}
