package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"

	"waypost/journey/nodes"
)

//go:embed static
var staticFiles embed.FS

// staticFile is a file as it is served.
type staticFile struct {
	kind, etag    string
	plain, zipped []byte
}

// statics are the files of static/, by their names.
var statics = func() map[string]staticFile {
	all := map[string]staticFile{}
	err := fs.WalkDir(staticFiles, "static", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := staticFiles.ReadFile(name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(text)
		var zipped bytes.Buffer
		zip, _ := gzip.NewWriterLevel(&zipped, gzip.BestCompression) // the level is a valid one
		_, _ = zip.Write(text)
		_ = zip.Close()
		kind := mime.TypeByExtension(path.Ext(name))
		if path.Ext(name) == ".js" {
			kind = "text/javascript; charset=utf-8"
		}
		all[strings.TrimPrefix(name, "static/")] = staticFile{kind, hex.EncodeToString(sum[:8]), text, zipped.Bytes()}
		return nil
	})
	if err != nil {
		panic(err)
	}
	return all
}()

// asset is the address of a file of static/, which is another one once the file changes.
func asset(name string) (string, error) {
	file, found := statics[name]
	if !found {
		return "", fmt.Errorf("static/%s is not there", name)
	}
	return "/static/" + name + "?v=" + file.etag, nil
}

// serveStatic serves a file. With the version in its address it is kept for a year, without
// (modules that import each other) it is asked for again.
func serveStatic(w http.ResponseWriter, r *http.Request) {
	file, found := statics[strings.TrimPrefix(r.URL.Path, "/static/")]
	if !found {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", file.kind)
	h.Set("ETag", `"`+file.etag+`"`)
	h.Set("Vary", "Accept-Encoding")
	h.Set("Cache-Control", "no-cache")
	if r.URL.Query().Get("v") == file.etag {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	if r.Header.Get("If-None-Match") == `"`+file.etag+`"` {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := file.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = file.zipped
	}
	_, _ = w.Write(body) // the browser may have gone
}

// icons are drawn on 16 by 16, in the text's colour. Those of types of nodes are on 24 by 24, as the canvas has them.
var icons = map[string]string{
	"overview":     `<path d="M2.5 9.5h4v4h-4zM2.5 2.5h4v4h-4zM9.5 2.5h4v4h-4zM9.5 9.5h4v4h-4z"/>`,
	"journeys":     `<circle cx="3.5" cy="8" r="1.75"/><circle cx="12.5" cy="3.75" r="1.75"/><circle cx="12.5" cy="12.25" r="1.75"/><path d="M5.25 8c3 0 2.5-4.25 5.5-4.25M5.25 8c3 0 2.5 4.25 5.5 4.25"/>`,
	"deliveries":   plane,
	"leads":        `<circle cx="6" cy="5" r="2.5"/><path d="M1.5 13.5c0-2.5 2-4 4.5-4s4.5 1.5 4.5 4M10.5 2.9a2.5 2.5 0 0 1 0 4.2M12 9.9c1.600.5 2.5 1.8 2.5 3.6"/>`,
	"segments":     `<circle cx="8" cy="8" r="5.75"/><path d="M8 2.25V8l4.7 3.3"/>`,
	"suppressions": `<circle cx="8" cy="8" r="5.75"/><path d="M4 12 12 4"/>`,
	"webhooks":     `<path d="M6.5 9.5 9.5 6.5M7 4.5l1.2-1.2a3 3 0 0 1 4.5 4.5L11.5 9M9 11.5l-1.2 1.2a3 3 0 0 1-4.5-4.5L4.5 7"/>`,
	"articles":     `<path d="M3.5 2h6L12.5 5v9h-9zM9.5 2v3h3M5.75 8h4.5M5.75 10.75h4.5"/>`,
	"audit":        `<path d="M8 1.75 13 3.5v4c0 3.3-2.2 5.6-5 6.75C5.2 13.1 3 10.8 3 7.5v-4zM5.75 7.75 7.5 9.5l3-3.25"/>`,
	"users":        `<circle cx="8" cy="5.25" r="2.75"/><path d="M2.75 14c0-2.9 2.3-4.75 5.25-4.75S13.25 11.1 13.25 14"/>`,
	"copy":         `<path d="M5.5 5.5h8v8h-8zM3.5 10.5h-1v-8h8v1"/>`,
	"search":       `<circle cx="7" cy="7" r="4.5"/><path d="m10.5 10.5 3.5 3.5"/>`,
	"chevron":      `<path d="m4 6 4 4 4-4"/>`,
	"back":         `<path d="M10 3.5 5.5 8l4.5 4.5"/>`,
	"plus":         `<path d="M8 3v10M3 8h10"/>`,
	"close":        `<path d="m4 4 8 8M12 4l-8 8"/>`,
	"external":     `<path d="M9 2.5h4.5V7M13.5 2.5 7.5 8.5M11.5 9.5v4h-9v-9h4"/>`,
	"sign-out":     `<path d="M6.5 2.5h-4v11h4M10.5 5 13.5 8l-3 3M13.5 8h-7"/>`,
	"empty":        `<path d="M2 9.5 4 3h8l2 6.5v3.5H2zM2 9.5h3.5l1 1.75h3l1-1.75H14"/>`,
	"warning":      `<path d="M8 2.25 14.25 13.25H1.75zM8 6.5v3M8 11.5v.1"/>`,
	"check":        `<path d="m3 8.5 3.25 3.25L13 4.75"/>`,
	"retry":        `<path d="M13 8a5 5 0 1 1-1.5-3.55M13 2v3h-3"/>`,
	"pause":        `<path d="M5.5 3.5v9M10.5 3.5v9"/>`,
	"play":         `<path d="M5 3v10l8-5z"/>`,
	"launch":       rocket,
	"launches":     rocket,
	"pen":          `<path d="m3 13 .75-3L10.500 3.250l2.250 2.250L6 12.250z"/>`,
	"arrow":        `<path d="M3 8h10M9.500 4.500 13 8l-3.500 3.500"/>`,
	"more":         `<path d="M3.500 8h.1M8 8h.1M12.500 8h.1" stroke-width="2"/>`,
	"language":     `<circle cx="8" cy="8" r="5.75"/><path d="M2.25 8h11.5M8 2.25c-3.3 3.5-3.3 8 0 11.5M8 2.25c3.3 3.5 3.3 8 0 11.5"/>`,
	"stage":        `<path d="M8 1.75 14 5 8 8.25 2 5zM2 8l6 3.25L14 8M2 11l6 3.25L14 11"/>`,
	"download":     `<path d="M8 2.5v7.5M4.75 7 8 10.25 11.25 7M2.5 13.5h11"/>`,
	"upload":       `<path d="M8 10.5V3M4.75 6 8 2.75 11.25 6M2.5 13.5h11"/>`,
	"clock":        `<circle cx="8" cy="8" r="5.75"/><path d="M8 4.75V8l2.25 1.5"/>`,
	"key":          `<circle cx="5.25" cy="10.75" r="2.75"/><path d="m7.25 8.75 6-6M11 5l2 2"/>`,
	"event":        bolt,

	"subscriptions": `<path d="M3.500 12.500h.1M3.500 8a4.500 4.500 0 0 1 4.500 4.500M3.500 3.500a9 9 0 0 1 9 9"/>`,
}

// plane stands for messages.
const plane = `<path d="M14 2 7.2 8.8M14 2 9.8 14 7.2 8.8 2 6.2z"/>`

// bolt stands for events.
const bolt = `<path d="M9 1.75 3.5 9H8l-1 5.25L12.5 7H8z"/>`

// rocket stands for launches.
const rocket = `<path d="M9.5 10.75 5.25 6.5C6.75 3.5 9.5 2 13.750 2.250 14 6.500 12.500 9.250 9.500 10.750zM5.250 6.500 3 6.750 1.750 9l2.500.25M9.500 10.750 9.250 13 7 14.250 6.750 11.750M3.750 12.250 2.250 13.750"/>`

// icon is an icon beside a text that says the same.
func icon(name string) (template.HTML, error) {
	size, width := 16, 1.4
	drawn, found := icons[name]
	if t := nodes.Of(name); !found && t.Name != "" {
		size, width = 24, 2.1
		drawn = `<path d="` + t.Icon + `"/>`
	} else if !found {
		return "", fmt.Errorf("there is no icon %q", name)
	}
	return template.HTML(fmt.Sprintf( //nolint:gosec // from the tables
		`<svg class="icon" viewBox="0 0 %d %[1]d" width="16" height="16" fill="none" stroke="currentColor" stroke-width="%g" `+
			`stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">%s</svg>`, size, width, drawn)), nil
}
