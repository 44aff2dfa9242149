-- Drives Tapecheck in Neovim 0.7 to 0.11 (nvim --headless -u NONE -S client.lua) and prints what it sees as JSON lines.
local function say(key, value)
  io.stdout:write(vim.fn.json_encode({ key, value }) .. '\n')
end

local function wait(what, get)
  local value
  if not vim.wait(120000, function()
    value = get()
    return value and value ~= 0
  end, 20) then
    error('waited in vain for ' .. what)
  end
  return value
end

local function main()
  vim.o.swapfile = false
  vim.o.hidden = true
  -- What docs/editors/neovim.md says for this version, and its keys.
  for _, name in ipairs({ 'CONFIGURATION', 'KEYS' }) do
    assert(loadstring(vim.env[name]))()
  end
  vim.cmd('edit ' .. vim.fn.fnameescape(vim.env.FILE))
  vim.bo.filetype = 'python'
  local buffer = vim.api.nvim_get_current_buf()
  local function attached(number)
    if vim.lsp.get_clients then
      return vim.lsp.get_clients({ bufnr = number })
    end
    return vim.tbl_values(vim.lsp.buf_get_clients(number))
  end
  local id = wait('the client', function()
    local found = attached(buffer)[1]
    return found and found.id
  end)
  local client = wait('the client', function()
    return vim.lsp.get_client_by_id(id)
  end)

  local function request(method, params)
    local answer
    local function take(err, result)
      answer = { err, result }
    end
    if vim.lsp.config then
      client:request(method, params, take, buffer)
    else
      client.request(method, params, take, buffer)
    end
    wait(method, function()
      return answer
    end)
    if answer[1] then
      error(method .. ': ' .. vim.inspect(answer[1]))
    end
    return answer[2]
  end

  local function diagnostics(count)
    return wait(count .. ' diagnostics', function()
      local found = vim.diagnostic.get(buffer)
      return #found == count and found
    end)
  end

  local found = diagnostics(1)[1]
  local line = vim.api.nvim_buf_get_lines(buffer, found.lnum, found.lnum + 1, false)[1]
  local raw = found.user_data.lsp or {}
  say('diagnostic', {
    code = found.code or raw.code,
    line = found.lnum,
    text = line:sub(found.col + 1, found.end_col),
    message = found.message,
    related = #(raw.relatedInformation or {}),
  })

  local document = { uri = vim.uri_from_bufnr(buffer) }
  local encoding = client.offset_encoding or 'utf-16'
  say('encoding', encoding)
  local function at(row, byte)
    local text = vim.api.nvim_buf_get_lines(buffer, row, row + 1, false)[1]
    local units = encoding == 'utf-8' and byte or vim.str_utfindex(text, byte)
    if encoding == 'utf-16' then
      local _, wide = vim.str_utfindex(text, byte)
      units = wide
    end
    return { line = row, character = units }
  end
  local hover = request('textDocument/hover', { textDocument = document, position = at(found.lnum, found.col) })
  say('hover', hover.contents.value)
  -- Neovim's own rendering must take it.
  local lines = vim.lsp.util.convert_input_to_markdown_lines(hover.contents)
  say('rendered', table.concat(lines, '\n'))

  local lenses = request('textDocument/codeLens', { textDocument = document })
  say('lenses', vim.tbl_map(function(lens)
    return lens.command.title
  end, lenses))

  local range = { start = at(found.lnum, found.col), ['end'] = at(found.lnum, found.end_col) }
  local actions = request('textDocument/codeAction', {
    textDocument = document,
    range = range,
    context = { diagnostics = {} },
  })
  say('actions', vim.tbl_map(function(action)
    return action.title
  end, actions))
  local first = actions[1]
  if not first.edit then
    first = request('codeAction/resolve', first)
  end
  vim.lsp.util.apply_workspace_edit(first.edit, encoding)
  diagnostics(0)
  say('fixed', table.concat(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), '\n'))
  vim.cmd('undo')
  diagnostics(1)

  local answer = request('workspace/executeCommand', { command = 'tapecheck.run', arguments = { document } })
  say('run', answer.summary)
  local confirmed = wait('the verdict', function()
    local now = vim.diagnostic.get(buffer)[1]
    return now and now.message:find(' — confirmed: ', 1, true) and now.message
  end)
  say('confirmed', confirmed)

  -- Another buffer has the same server.
  vim.cmd('edit ' .. vim.fn.fnameescape(vim.env.FILE .. '.other.py'))
  vim.bo.filetype = 'python'
  local other = wait('the client of another buffer', function()
    return attached(vim.api.nvim_get_current_buf())[1]
  end)
  say('servers', other.id == id and 1 or 2)
end

local ok, err = pcall(main)
if not ok then
  say('failed', tostring(err))
end
vim.cmd(ok and 'qall!' or 'cquit 1')
