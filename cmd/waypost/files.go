package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"waypost/yamljson"
)

// openInput opens a file, or standard input for "-".
func (c *cli) openInput(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(c.stdin), nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, fileFault(err))
	}
	return file, nil
}

// fileFault is the error of a file without the file's name.
func fileFault(err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return p.Err
	}
	return err
}

// readInput reads a file, or standard input for "-".
func (c *cli) readInput(name string) ([]byte, error) {
	from, err := c.openInput(name)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	data, err := io.ReadAll(from)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", inputName(name), fileFault(err))
	}
	return data, nil
}

// regularFile returns an input that is a regular file, nil for every other one.
func regularFile(from io.Reader) (*os.File, fs.FileInfo) {
	if file, isFile := from.(*os.File); isFile {
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			return file, info
		}
	}
	return nil, nil
}

// inputName is an input's name in texts for people.
func inputName(name string) string {
	if name == "-" {
		return "standard input"
	}
	return name
}

// readValue reads the value of a flag: from a file for @FILE, from standard input for "-".
func (c *cli) readValue(value string) ([]byte, error) {
	name, isFile := strings.CutPrefix(value, "@")
	if isFile || value == "-" {
		return c.readInput(name)
	}
	return []byte(value), nil
}

// readObject reads a file that holds one object, in YAML or JSON, as JSON.
func (c *cli) readObject(name string) (json.RawMessage, error) {
	return c.readAs(name, yamljson.ToJSON)
}

// readAs reads a file that holds one object, in JSON or in YAML, which toJSON takes. JSON goes to
// the gateway as it stands, so that the gateway sees every mistake.
func (c *cli) readAs(name string, toJSON func([]byte) ([]byte, error)) (json.RawMessage, error) {
	data, err := c.readInput(name)
	if err != nil {
		return nil, err
	}
	name = inputName(name)
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if trimmed := bytes.TrimSpace(data); bytes.HasPrefix(trimmed, []byte("{")) && json.Valid(trimmed) {
		return trimmed, nil
	}
	out, err := toJSON(data)
	if err != nil {
		return nil, fmt.Errorf("%s is neither YAML nor JSON: %w", name, err)
	}
	if !bytes.HasPrefix(out, []byte("{")) {
		return nil, fmt.Errorf("%s must hold an object: members like `name: value`", name)
	}
	return out, nil
}

// pairsOf reads the values of a flag that are written name=value; form tells people how.
// The same name twice is an error.
func pairsOf(flag string, texts []string, form string) (map[string]string, error) {
	pairs := map[string]string{}
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" || value == "" {
			return nil, usagef("%s %q: it is %s", flag, text, form)
		}
		if _, twice := pairs[name]; twice {
			return nil, usagef("%s %s stands twice", flag, name)
		}
		pairs[name] = value
	}
	return pairs, nil
}

// typedPairs reads name=text and name:=JSON of a flag.
func typedPairs(flag string, pairs []string) (map[string]any, error) {
	out := map[string]any{}
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" || name == ":" {
			return nil, usagef("%s %q: it is name=text or name:=JSON", flag, pair)
		}
		if name, isJSON := strings.CutSuffix(name, ":"); isJSON {
			if !json.Valid([]byte(value)) {
				return nil, usagef("%s %q: what follows := must be JSON, such as 7 or \"text\"", flag, pair)
			}
			out[name] = json.RawMessage(value)
			continue
		}
		out[name] = value
	}
	return out, nil
}

// saveTo writes a file that appears under its name when it is complete. A pipe or a device
// is written directly.
func saveTo(name string, write func(io.Writer) error) error {
	if at, err := filepath.EvalSymlinks(name); err == nil {
		name = at // the file behind a link, not the link
	}
	info, err := os.Stat(name)
	if err == nil && info.IsDir() {
		return fmt.Errorf("write %s: it is a directory", name)
	}
	if err == nil && !info.Mode().IsRegular() {
		file, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(write(file), file.Close())
	}
	file, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*.part")
	if err != nil {
		return fmt.Errorf("write %s: %w", name, fileFault(err))
	}
	out := bufio.NewWriterSize(file, 64<<10)
	err = write(out)
	if err == nil {
		err = out.Flush()
	}
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}
