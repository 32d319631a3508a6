package console

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"waypost"
)

// downloadTime bounds a file that is passed on.
const downloadTime = time.Hour

// download passes on an export of the gateway, in the format that the URL names, as a file. If the
// gateway's answer is cut off, the browser's connection is cut off too: the browser then reports a
// failed download instead of a short file.
func (v *visit) download(grant waypost.Grant, path string, query url.Values, name string) error {
	format := v.r.URL.Query().Get("format")
	if format != "ndjson" {
		format = "csv"
		query.Set("bom", "true") // spreadsheets take it for UTF-8 then
	}
	query.Set("format", format)
	res, err := v.gateway.stream(v.r.Context(), grant, http.MethodGet, path+"?"+query.Encode(), nil, nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	v.beginFile(name+"-"+time.Now().In(v.chosen.Zone).Format("2006-01-02")+"."+format, res.Header.Get("Content-Type"))
	last := &ending{}
	_, err = io.Copy(v.w, io.TeeReader(res.Body, last))
	whole := res.Trailer.Get("X-Waypost-Count") != ""
	if format == "ndjson" {
		whole = last.end()
	}
	if err != nil || !whole {
		v.log = append(v.log, slog.Any("error", err), slog.Bool("cut", true))
		panic(http.ErrAbortHandler)
	}
	return nil
}

// beginFile starts the answer that is a file.
func (v *visit) beginFile(name, kind string) {
	_ = http.NewResponseController(v.w).SetWriteDeadline(time.Now().Add(downloadTime)) // a connection that cannot do it keeps its own
	h := v.w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Disposition", `attachment; filename="`+name+`"`)
	v.status = http.StatusOK
	v.w.WriteHeader(v.status)
}

// ending keeps the last bytes of a stream of lines.
type ending struct{ last []byte }

func (e *ending) Write(p []byte) (int, error) {
	const kept = 256 // bytes; the last line of an export is shorter
	e.last = append(e.last, p...)
	if len(e.last) > kept {
		e.last = append([]byte(nil), e.last[len(e.last)-kept:]...)
	}
	return len(p), nil
}

// end tells whether the last line is that of a whole export.
func (e *ending) end() bool {
	lines := bytes.Split(bytes.TrimSpace(e.last), []byte("\n"))
	var line struct {
		End bool `json:"end"`
	}
	return json.Unmarshal(lines[len(lines)-1], &line) == nil && line.End
}

// lines reads a stream of JSON, one value a line.
func lines[T any](stream io.Reader, each func(T) error) error {
	decoder := json.NewDecoder(bufio.NewReader(stream))
	for {
		var value T
		switch err := decoder.Decode(&value); err {
		case nil:
			if err := each(value); err != nil {
				return err
			}
		case io.EOF:
			return nil
		default:
			return err
		}
	}
}

// indented is JSON as people read it, "" if there is none.
func indented(text json.RawMessage) string {
	var out bytes.Buffer
	if len(text) == 0 || string(text) == "null" || json.Indent(&out, text, "", "  ") != nil {
		return ""
	}
	return out.String()
}
