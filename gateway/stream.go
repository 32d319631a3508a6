package gateway

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/gofiber/fiber/v2"
)

// Bounds of a streamed answer.
const (
	streamTime   = 2 * time.Hour // in all
	streamBuffer = 64 << 10      // bytes
)

// streamFunc writes the body of a streamed answer. setTrailer may be called once
// before it returns, for the header that the answer named as its trailer.
type streamFunc func(ctx context.Context, w *bufio.Writer, setTrailer func(value string)) error

// streamReader is what the server reads a streamed body from, while it writes it to
// the connection. The stream function runs in a goroutine of its own, which ends
// when the connection does.
type streamReader struct {
	in      *bufio.Reader // of the pipe
	conn    net.Conn
	pipe    *io.PipeReader
	cancel  context.CancelFunc
	trailer string // its value, set before the pipe ends
	end     func()

	// The client must read least bytes (0: any number) in each window. Of the present one
	// it has read got, for which it took spent; given is when it got the last piece.
	least, got    int
	window, spent time.Duration
	given         time.Time
}

// writeStream makes the answer's stream the body of the response. What fails before
// the first piece is there is answered as an error; what fails later breaks the
// connection, and the client sees that the body is not complete.
func (a *server) writeStream(c *fiber.Ctx, ans answer) error {
	if c.Method() == fiber.MethodHead {
		// The server would write the end of a chunked body behind the headers, which the
		// client would take for the next answer.
		return nil
	}
	response, id := c.Response(), requestOf(c).id
	ctx, cancel := context.WithTimeout(context.Background(), streamTime)
	reader, writer := io.Pipe()
	s := &streamReader{in: bufio.NewReaderSize(reader, streamBuffer), conn: c.Context().Conn(), pipe: reader, cancel: cancel,
		least: leastOf(a.LeastRate, a.window), window: a.window}
	go func() {
		w := bufio.NewWriterSize(writer, streamBuffer)
		err := guarded(func() error { return ans.stream(ctx, w, func(value string) { s.trailer = value }) })
		if err == nil {
			err = w.Flush()
		}
		if err != nil {
			a.Log.LogAttrs(ctx, slog.LevelWarn, "an answer was cut off", slog.String("request", id), slog.String("error", err.Error()))
		}
		_ = writer.CloseWithError(err)
	}()
	if _, err := s.in.Peek(1); err != nil && !errors.Is(err, io.EOF) {
		return errors.Join(err, s.Close())
	}
	if ans.trailer != "" {
		if err := response.Header.SetTrailer(ans.trailer); err != nil {
			return errors.Join(err, s.Close())
		}
		s.end = func() { response.Header.Set(ans.trailer, s.trailer) }
	}
	response.SetBodyStream(s, -1)
	return nil
}

func (s *streamReader) Read(p []byte) (int, error) {
	if !s.given.IsZero() {
		s.spent += time.Since(s.given)
	}
	n, err := s.in.Read(p)
	if errors.Is(err, io.EOF) && s.end != nil {
		s.end() // here: the response belongs to the goroutine that reads
	}
	// The server's time-out is for a whole answer; here it is for each piece of one.
	s.given = time.Now()
	if deadlineErr := s.conn.SetWriteDeadline(s.given.Add(s.patience())); deadlineErr != nil && err == nil {
		err = deadlineErr
	}
	s.got += n
	return n, err
}

// patience is how long the client may take for the next piece.
func (s *streamReader) patience() time.Duration {
	if s.least == 0 {
		return writeTime
	}
	if s.got >= s.least {
		s.got, s.spent = 0, 0
	}
	return min(writeTime, s.window-s.spent)
}

// errSlow tells the log why an answer was cut off.
var errSlow = errors.New("the client read more slowly than WAYPOST_LEAST_RATE, or not at all")

// Close ends a stream, read to its end or not.
func (s *streamReader) Close() error {
	s.cancel()
	if s.least > 0 && !s.given.IsZero() && s.spent+time.Since(s.given) >= s.window {
		return s.pipe.CloseWithError(errSlow)
	}
	return s.pipe.Close()
}
