;; Drives Tapecheck in Emacs with lsp-mode (emacs -q --batch -l lsp_mode.el) and prints what it sees as JSON lines.  -*- lexical-binding: t -*-
(package-initialize)
(require 'json)
(require 'lsp-mode)
(require 'lsp-diagnostics)
(setq make-backup-files nil create-lockfiles nil lsp-auto-guess-root t lsp-enable-snippet nil lsp-enable-file-watchers nil
      lsp-session-file (expand-file-name "lsp-session" (getenv "HOME")) lsp-restart 'ignore
      lsp-keep-workspace-alive nil lsp-diagnostics-provider :none lsp-modeline-diagnostics-enable nil
      lsp-modeline-code-actions-enable nil lsp-headerline-breadcrumb-enable nil lsp-response-timeout 120)

(defun say (key value) (princ (concat (json-encode (list key value)) "\n")))
(defun wait (what get)
  (let ((end (+ (float-time) 60)) value)
    (while (and (not (setq value (funcall get))) (< (float-time) end)) (accept-process-output nil 0.05))
    (or value (error "waited in vain for %s" what))))
(defun findings () (gethash (lsp--fix-path-casing buffer-file-name) (lsp-diagnostics t)))

(defun main ()
  (let ((command (append (json-read-from-string (getenv "SERVER")) nil)))
    ;; As docs/editors/emacs.md has it.
    (lsp-register-client
     (make-lsp-client :new-connection (lsp-stdio-connection command)
                      :activation-fn (lsp-activate-on "python")
                      :server-id 'tapecheck
                      :add-on? t))
    (find-file (getenv "FILE"))
    (python-mode)
    (lsp)
    (wait "the server" (lambda () (and (lsp-workspaces) (eq 'initialized (lsp--workspace-status (car (lsp-workspaces)))))))
    (let* ((found (car (wait "a finding" #'findings)))
           (range (lsp:diagnostic-range found))
           (beg (lsp--position-to-point (lsp:range-start range))))
      (say "diagnostic" (list :text (buffer-substring-no-properties beg (lsp--position-to-point (lsp:range-end range)))
                              :line (1- (line-number-at-pos beg))
                              :message (lsp:diagnostic-message found)))
      (goto-char beg)
      (let ((hover (lsp-request "textDocument/hover" (lsp--text-document-position-params))))
        (say "hover" (lsp:markup-content-value (lsp:hover-contents hover))))
      (let ((actions (lsp-get-or-calculate-code-actions nil)))
        (say "actions" (vconcat (mapcar #'lsp:code-action-title actions)))
        (lsp-execute-code-action (car actions)))
      (wait "the finding to go" (lambda () (null (findings))))
      (say "fixed" (buffer-substring-no-properties (point-min) (point-max)))
      (set-buffer-modified-p nil))))

(defun lsp-get-or-calculate-code-actions (kind)
  (append (lsp-request "textDocument/codeAction" (lsp--text-document-code-action-params kind)) nil))

(condition-case err (progn (main) (kill-emacs 0))
  (error (say "failed" (error-message-string err)) (kill-emacs 1)))
