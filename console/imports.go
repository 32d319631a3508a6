package console

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"waypost"
)

// uploadPath takes a file of leads, the only long body that the console takes. The browser
// has read the file before, shown what is in it, and made it UTF-8 with the names of the
// gateway's fields (import.js): nothing is sent until somebody says so.
const uploadPath = "/leads/import"

// Bounds of a file of leads. It is in memory while it is passed on.
const (
	maxUpload  = 64 << 20 // bytes, as the gateway takes them
	uploadTime = 10 * time.Minute
)

// uploads bounds how many files are in memory at a time.
var uploads = make(chan struct{}, 4)

// uploadPage is the data of the page on which a file is chosen.
type uploadPage struct {
	Fields string // the fields that a column can be, as JSON
	Modes  []option
	Match  field // what names the lead of a row
}

func (v *visit) showUpload() error {
	type column struct {
		Value string `json:"value"`
		Label string `json:"label"`
	}
	columns := []column{{"leadsId", v.t("leads.field.leadsId")}}
	for _, f := range leadFields {
		columns = append(columns, column{f.name, v.t("leads.field." + f.name)})
	}
	names, err := v.gateway.leadFieldNames(v.r.Context())
	if err != nil {
		return err
	}
	for _, name := range names {
		columns = append(columns, column{"customFields." + name, name})
	}
	text, err := json.Marshal(columns)
	if err != nil {
		return err
	}
	p := uploadPage{Fields: string(text), Modes: options(v, "import.mode.", []waypost.ImportMode{waypost.ImportUpsert, waypost.ImportCreate, waypost.ImportUpdate})}
	matches := append([]option{{"", v.t("import.match.none")}}, options(v, "import.match.", waypost.ImportMatches)...)
	p.Match = field{Name: "match", Label: v.t("import.matchLabel"), Hint: v.t("import.matchHint"), Type: "select", Options: matches}
	return v.render(page{Name: "import", Title: v.t("import.title"), Place: "leads", Scripts: []string{"import.js"}, Back: &link{Path: "/leads", Text: v.t("leads.title")}, Data: p})
}

// uploadKinds are the forms of files.
var uploadKinds = []string{"text/csv;charset=UTF-8", "application/x-ndjson", "application/json"}

// upload passes a file on, and answers import.js with the page of its import, or with what
// is wrong.
func (v *visit) upload() error {
	query := v.r.URL.Query()
	v.gateway.stage = stageOf(query.Get("stage"))
	kind := v.r.Header.Get("Content-Type")
	if !slices.Contains(uploadKinds, kind) {
		return waypost.Errorf(waypost.CodeUnsupportedMediaType, "", "the Content-Type must be one of %s", strings.Join(uploadKinds, ", "))
	}
	select {
	case uploads <- struct{}{}:
		defer func() { <-uploads }()
	default:
		return v.answerUpload("", waypost.Errorf(waypost.CodeServiceUnavailable, "", "%s", v.t("import.busy")))
	}
	within := http.NewResponseController(v.w)
	_ = within.SetReadDeadline(time.Now().Add(uploadTime)) // a connection that cannot do it keeps its own
	_ = within.SetWriteDeadline(time.Now().Add(uploadTime))
	file, err := v.body()
	if err != nil {
		return v.answerUpload("", err)
	}
	how := url.Values{"mode": {query.Get("mode")}, "dryRun": {strconv.FormatBool(query.Has("dryRun"))}}
	if match := query.Get("match"); match != "" {
		how.Set("match", match)
	}
	made, err := v.gateway.importLeads(v.r.Context(), how, kind, file)
	return v.answerUpload(uploadPath+"/"+made.ID, err)
}

// answerUpload answers import.js, which shows what the upload came to: status 200 with a location
// or a message, so that errors do not end in a page.
func (v *visit) answerUpload(location string, err error) error {
	answer := struct {
		Location string           `json:"location,omitempty"`
		Message  string           `json:"message,omitempty"`
		Faults   []waypost.Detail `json:"faults,omitempty"`
		Request  string           `json:"request"`
	}{Location: location, Request: v.id}
	v.status = http.StatusOK
	if err != nil {
		v.log = append(v.log, slog.String("error", err.Error()))
		answer.Location, answer.Message = "", v.t("errors.internal.text")
		var asked *waypost.Error
		switch {
		case errors.As(err, new(*http.MaxBytesError)):
			answer.Message = v.t("import.large")
		case errors.As(err, new(away)):
			answer.Message = v.t("errors.away.title")
		case errors.As(err, new(refused)):
			answer.Message = v.t("errors.refused.text")
		case errors.Is(err, errSignIn):
			answer.Message = v.t("signIn.title")
		case errors.As(err, &asked):
			answer.Message, answer.Faults = asked.Message, asked.Details
		}
	}
	v.w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(v.w).Encode(answer)
}

// importPage is the data of the page of one import.
type importPage struct {
	leadImport
	Errors  []importError // the first ones
	Stalled time.Time     // since when it waits for a worker, zero if that is not long
}

// mostErrors bounds the failed rows that the page shows; the file has all.
const mostErrors = 50

// errEnough ends the reading of failed rows.
var errEnough = errors.New("enough")

// leadImport shows how far an import is, with its first mostErrors failed rows, every 2 s anew
// until it has ended.
func (v *visit) leadImport() error {
	im, err := v.gateway.leadImport(v.r.Context(), v.r.PathValue("id"))
	if err != nil {
		return err
	}
	p := importPage{leadImport: im}
	if im.Status == waypost.ImportPending {
		p.Stalled = overdue(im.CreatedAt)
	}
	if im.Failed > 0 {
		err := v.gateway.importErrors(v.r.Context(), im.ID, func(e importError) error {
			if p.Errors = append(p.Errors, e); len(p.Errors) == mostErrors {
				return errEnough
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			return err
		}
	}
	live := 0
	if !im.Status.Ended() {
		live = 2
	}
	title := v.t("import.of")
	if im.DryRun {
		title = v.t("import.ofCheck")
	}
	return v.render(page{Name: "import_progress", Title: title, Place: "leads", Live: live, Back: &link{Path: "/leads", Text: v.t("leads.title")}, Data: p})
}

func (v *visit) cancelImport() error {
	id := v.r.PathValue("id")
	if err := v.gateway.cancelImport(v.r.Context(), id); err != nil {
		return err
	}
	return v.redirect(uploadPath+"/"+url.PathEscape(id), nil)
}

// importErrors answers with all rows that failed, as a file for spreadsheets.
func (v *visit) importErrors() error {
	id := v.r.PathValue("id")
	if _, err := v.gateway.leadImport(v.r.Context(), id); err != nil {
		return err
	}
	v.beginFile("errors.csv", "text/csv;charset=UTF-8")
	_, _ = io.WriteString(v.w, "\uFEFF")
	out := csv.NewWriter(v.w)
	_ = out.Write([]string{v.t("import.line"), v.t("import.field"), v.t("import.wrong")})
	err := v.gateway.importErrors(v.r.Context(), id, func(e importError) error {
		if len(e.Detail) == 0 {
			return out.Write([]string{strconv.Itoa(e.Line), "", asCell(e.Message)})
		}
		for _, d := range e.Detail {
			if err := out.Write([]string{strconv.Itoa(e.Line), asCell(d.Target), asCell(d.Message)}); err != nil {
				return err
			}
		}
		return nil
	})
	out.Flush()
	if err != nil || out.Error() != nil {
		panic(http.ErrAbortHandler) // the browser says that the file is not whole
	}
	return nil
}

// asCell is a text that no spreadsheet runs as a formula: names of members come from the file. Spreadsheets skip blanks
// before a formula, and those of East Asia take full-width signs.
func asCell(text string) string {
	first, _ := utf8.DecodeRuneInString(strings.TrimSpace(text))
	if strings.ContainsRune("=+-@＝＋－＠", first) || strings.TrimSpace(text) != text {
		return "'" + text
	}
	return text
}
